"""Check the site's Celery app: it exists, reads the settings, and its options suit the tools."""

import os
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

from celery import current_app
from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004 - Django's name
from psutil import Process

from mcp_app.catalogue.registry import registered_tools
from mcp_app.celery_adapter import thread_pool
from mcp_app.celery_adapter.broker import content_type
from mcp_app.checks import lines
from mcp_app.checks.values import is_readable
from mcp_app.conf import settings
from mcp_app.diagnosis import file_permissions
from mcp_app.site_defaults import CELERY_APP
from mcp_app.states import CancelPolicy

OWN_PROCESS_ONLY: Final = frozenset({"memory", "filesystem"})
"""Brokers that do not deliver messages to other processes, or not reliably."""
RESULTS_IN_DATABASE: Final = ("django-db", "django_celery_results")
JSON: Final = "application/json"
UNSAFE: Final = frozenset({"application/x-python-serialize", "application/x-yaml"})
"""The content types of pickle and YAML."""
WITHOUT_KILL: Final = frozenset({"threads", thread_pool.NAME, "mcp_app.execution.pools.async_pool:AsyncTaskPool"})
"""Pools that can run tools, but cannot kill them."""
FEW_CALLS: Final = 10
"""A process should run at least this many calls: starting one takes as long as many short calls."""


@register
def check_app(**kwargs: Any) -> list[CheckMessage]:
    """Check that the site's Celery app, if there is one, is imported and reads the settings module."""
    if current_app.main == CELERY_APP:
        return _find_unused_app()
    wanted = getattr(django_settings, "CELERY_BROKER_URL", None)
    if wanted and current_app.conf.broker_url != wanted and "CELERY_BROKER_URL" not in os.environ:
        message = "The Celery app does not read the site's settings: its broker is not CELERY_BROKER_URL."
        hint = f"In {lines.package()}/celery.py, or wherever the app is made:{lines.indented(lines.CONFIGURE)}"
        return [Warning(message, hint=hint, id="mcp_app.W034")]
    return []


@register
def check_threads(**kwargs: Any) -> list[CheckMessage]:
    """Check that all threads use the same Celery app, if the site has created several.

    In the thread that creates apps, Celery's current app is the last one; in all others it is the first.
    """
    here, elsewhere = current_app.main, []
    thread = Thread(target=lambda: elsewhere.append(current_app.main))
    thread.start()
    thread.join()
    if elsewhere == [here]:
        return []
    message = (
        f"The site has several Celery apps: some threads would send calls with {elsewhere[0]!r}, others with {here!r}."
    )
    hint = f"Call `set_default()` of the app {here!r} where it is made."
    return [Warning(message, hint=hint, id="mcp_app.W045")]


def _find_unused_app() -> list[CheckMessage]:
    """Find a Celery app of the site that the site does not import, so that mcp_app has made one of its own."""
    module = f"{lines.package()}.celery"
    if find_spec(module) is None:
        return []
    message = f"The Celery app in {module} is not imported when Django starts, so calls of tools do not use it."
    return [Warning(message, hint=lines.celery_import(), id="mcp_app.W043")]


@register
def check_broker(**kwargs: Any) -> list[CheckMessage]:
    """Check that the broker can deliver messages from the server to a worker."""
    url = _broker_url()
    if not url:
        message = "CELERY_BROKER_URL is not set: Celery looks for RabbitMQ on this machine."
        hint = f"{lines.in_settings(*lines.broker())}\nor the URL of your broker."
        return [Warning(message, hint=hint, id="mcp_app.W010")]
    scheme = urlsplit(url).scheme
    if scheme in OWN_PROCESS_ONLY:
        message = f"Calls would be lost: the broker {scheme}:// does not deliver reliably to a worker."
        # Not an error, because many sites use this broker in their tests, and Django's test runner
        # stops at errors.
        return [Warning(message, hint=lines.in_settings(*lines.broker()), id="mcp_app.W011")]
    folder = str(current_app.conf.broker_transport_options.get("folder") or "")
    if scheme == "mcpfs" and not folder:
        message = "The broker mcpfs:// needs a folder."
        return [Error(message, hint=lines.in_settings(*lines.broker()), id="mcp_app.E013")]
    if scheme == "mcpfs" and not os.path.isabs(folder):
        message = (
            "Calls would be lost if a process is started in another folder: the folder of mcpfs:// "
            f"is relative: {folder!r}."
        )
        return [Warning(message, hint=lines.in_settings(*lines.broker()), id="mcp_app.W037")]
    if scheme == "mcpfs" and file_permissions.others_may(file_permissions.WRITE, folder):
        message = f"Every user of this machine can write messages to the broker's folder {folder}."
        return [Warning(message, hint=f"Run `chmod o-w {folder}`.", id="mcp_app.W041")]
    return []


@register
def check_messages(**kwargs: Any) -> list[CheckMessage]:
    """Check that workers accept the messages that call tools, and no unsafe content types."""
    conf = current_app.conf
    accepted = {content_type(name) for name in conf.accept_content}
    if content_type(conf.task_serializer) not in accepted:
        message = f"Workers would drop every call: CELERY_ACCEPT_CONTENT does not have {conf.task_serializer!r}."
        return [Error(message, hint=_accept_content(conf.accept_content, conf.task_serializer), id="mcp_app.E014")]
    if JSON not in accepted:
        message = (
            "Workers would notice cancellations only by polling: CELERY_ACCEPT_CONTENT lacks JSON, "
            "in which Celery sends commands."
        )
        hint = _accept_content(conf.accept_content, "json") + "\nOtherwise they poll once a second."
        return [Warning(message, hint=hint, id="mcp_app.W035")]
    if unsafe := [name for name in conf.accept_content if content_type(name) in UNSAFE]:
        message = (
            f"Workers accept more than JSON: {', '.join(unsafe)}. With pickle, everyone who can write "
            "to the broker can run code."
        )
        safe = [name for name in conf.accept_content if name not in unsafe]
        hint = lines.in_settings(f"CELERY_ACCEPT_CONTENT = {safe}") + "\nunless the site's own tasks need the others."
        return [Warning(message, hint=hint, id="mcp_app.W012")]
    return []


@register
def check_queues(**kwargs: Any) -> list[CheckMessage]:
    """Check that Celery may create the tools' queues."""
    if not is_readable() or current_app.conf.task_create_missing_queues:
        return []
    known = {queue.name for queue in current_app.conf.task_queues or ()}
    wanted = {tool.queue or settings.QUEUE for tool in registered_tools().values()} or {settings.QUEUE}
    if not (missing := sorted(wanted - known)):
        return []
    message = (
        f"Celery is not allowed to create the tools' queues {', '.join(missing)}: "
        "CELERY_TASK_CREATE_MISSING_QUEUES is False."
    )
    queues = "".join(f'Queue("{queue}"), ' for queue in missing).rstrip(" ")
    hint = lines.in_settings("from kombu import Queue", f"CELERY_TASK_QUEUES += ({queues})")
    if len(missing) < len(wanted):
        return [Warning(message, hint=hint, id="mcp_app.W036")]
    return [Error(message, hint=hint, id="mcp_app.E018")]


@register
def check_results(**kwargs: Any) -> list[CheckMessage]:
    """Check that the app of Celery's result backend is installed. Without it, no worker can start."""
    backend = str(current_app.conf.result_backend or "")
    if apps.is_installed("django_celery_results") or not backend.startswith(RESULTS_IN_DATABASE):
        return []
    message = f"Workers cannot start: their result backend is {backend}, and its app is not installed."
    hint = lines.in_settings('INSTALLED_APPS += ["django_celery_results"]')
    return [Error(message, hint=f"{hint}\nor remove CELERY_RESULT_BACKEND.", id="mcp_app.E033")]


@register
def check_workers(**kwargs: Any) -> list[CheckMessage]:
    """Find options that slow tools down, or that have no effect on tools."""
    found: list[CheckMessage] = []
    conf = current_app.conf
    if conf.worker_pool not in ("prefork", "processes"):
        found.append(_pool_warning(conf.worker_pool))
    else:
        found += _find_short_lived_processes()
    return found


def _find_short_lived_processes() -> Iterator[CheckMessage]:
    """Find settings that end a pool's processes after one or a few calls."""
    conf = current_app.conf
    hint = "Raise or remove it. If you want this, silence the warning:" + lines.indented(
        'SILENCED_SYSTEM_CHECKS = ["mcp_app.W021"]'
    )
    if (calls := conf.worker_max_tasks_per_child) is not None and calls < FEW_CALLS:
        message = (
            f"CELERY_WORKER_MAX_TASKS_PER_CHILD is {calls}: after that many calls a process of the worker ends, and "
            "the next call waits for a new process."
        )
        yield Warning(message, hint=hint, id="mcp_app.W021")
    used = Process().memory_info().rss // 1024
    if (limit := conf.worker_max_memory_per_child) is not None and limit <= used:
        message = (
            f"CELERY_WORKER_MAX_MEMORY_PER_CHILD is {limit} KiB, and this site needs {used} KiB before any call: a "
            "worker's process ends after every call, and the next call waits for a new process."
        )
        yield Warning(message, hint=hint, id="mcp_app.W021")


def _pool_warning(pool: str) -> CheckMessage:
    """Return the warning for a pool in which tools cannot be killed, or cannot run at all."""
    message = f"CELERY_WORKER_POOL is {pool!r}, in which tools cannot run."
    if pool in WITHOUT_KILL:
        killed = [tool.name for tool in registered_tools().values() if tool.cancel_policy == CancelPolicy.KILL]
        named = f", although the cancel policy of these allows it: {', '.join(sorted(killed))}" if killed else ""
        message = f"CELERY_WORKER_POOL is {pool!r}, in which a tool cannot be killed{named}."
    hint = (
        "Run tools in workers that `manage.py mcp worker` starts, whose pool is prefork unless you say --pool; then "
        "silence this:" + lines.silenced("mcp_app.W006")
    )
    return Warning(message, hint=hint, id="mcp_app.W006")


def _broker_url() -> str:
    """Return the broker's URL, or the first of several."""
    url = current_app.conf.broker_url or ""
    return str(url if isinstance(url, str) else next(iter(url), "")).split(";")[0]


def _accept_content(accepted: Iterable[str], missing: str) -> str:
    return lines.in_settings(f"CELERY_ACCEPT_CONTENT = {[*accepted, missing]}")
