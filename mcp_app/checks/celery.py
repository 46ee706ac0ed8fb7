"""The site's Celery app: there is one, it reads the settings, and its messages, results and workers fit the tools."""

import os
from typing import Any, Final
from urllib.parse import urlsplit

from celery import current_app
from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004 - Django's name

from mcp_app.catalogue.registry import registered_tools
from mcp_app.checks import lines
from mcp_app.checks.values import readable
from mcp_app.conf import settings
from mcp_app.states import CancelPolicy

OWN_PROCESS_ONLY: Final = frozenset({"memory", "filesystem"})
"""Brokers that take a message to no other process, or not for certain."""
JSON: Final = frozenset({"json", "application/json"})
WITHOUT_KILL: Final = frozenset({
    "threads", "mcp_app.execution.thread_pool:TaskPool", "mcp_app.execution.async_pool:TaskPool"
})  # fmt: skip
"""Pools in which tools run and none is killed."""


@register
def check_app(**kwargs: Any) -> list[CheckMessage]:
    """The site has a Celery app that reads the settings module."""
    if not _has_app():
        return [Error("The site has no Celery app, which runs the tools.", hint=lines.celery_app(), id="mcp_app.E004")]
    wanted = getattr(django_settings, "CELERY_BROKER_URL", None)
    if wanted and current_app.conf.broker_url != wanted and "CELERY_BROKER_URL" not in os.environ:
        message = "The Celery app does not read the site's settings: its broker is not CELERY_BROKER_URL."
        hint = f"In {lines.package()}/celery.py, or wherever the app is made:{lines.indented(lines.CONFIGURE)}"
        return [Error(message, hint=hint, id="mcp_app.E011")]
    return []


@register
def check_broker(**kwargs: Any) -> list[CheckMessage]:
    """The broker takes messages from the server to a worker."""
    if not _has_app():
        return []
    url = _broker_url()
    if not url:
        message = "CELERY_BROKER_URL is not set: Celery looks for RabbitMQ on this machine."
        hint = f"{lines.in_settings(*lines.BROKER)}\nor the URL of the broker that you have."
        return [Warning(message, hint=hint, id="mcp_app.W010")]
    scheme = urlsplit(url).scheme
    if scheme in OWN_PROCESS_ONLY:
        message = f"Calls would be lost: the broker {scheme}:// does not reach a worker for certain."
        # Not an error: it is what many sites' own tests run on, and Django's test runner asks for no errors.
        return [Warning(message, hint=lines.in_settings(*lines.BROKER), id="mcp_app.W011")]
    folder = str(current_app.conf.broker_transport_options.get("folder") or "")
    if scheme == "mcpfs" and not os.path.isabs(folder):
        message = "The broker mcpfs:// needs a folder, by a path that does not depend on where a process was started."
        return [Error(message, hint=lines.in_settings(*lines.BROKER), id="mcp_app.E013")]
    return []


@register
def check_messages(**kwargs: Any) -> list[CheckMessage]:
    """Workers accept what tools are called by, and the tools' queue may be made."""
    if not readable() or not _has_app():
        return []
    found: list[CheckMessage] = []
    conf = current_app.conf
    missing = {name for name in ("json", conf.task_serializer) if not _accepted(name)}
    if missing:
        accepted = sorted({"json", *map(str, conf.accept_content)} | missing)
        message = f"Workers would drop every call: CELERY_ACCEPT_CONTENT is without {', '.join(sorted(missing))}."
        hint = lines.in_settings(f"CELERY_ACCEPT_CONTENT = {accepted}")
        found.append(Error(message, hint=hint, id="mcp_app.E014"))
    elif others := sorted(str(name) for name in conf.accept_content if name not in JSON):
        message = f"Workers accept more than JSON: {', '.join(others)}. By pickle the broker's writers run code."
        hint = lines.in_settings('CELERY_ACCEPT_CONTENT = ["json"]') + "\nunless the site's own tasks need the others."
        found.append(Warning(message, hint=hint, id="mcp_app.W012"))
    if not conf.task_create_missing_queues and settings.QUEUE not in {queue.name for queue in conf.task_queues or ()}:
        message = f"Nobody may make the tools' queue {settings.QUEUE!r}: CELERY_TASK_CREATE_MISSING_QUEUES is False."
        hint = lines.in_settings("from kombu import Queue", f'CELERY_TASK_QUEUES += (Queue("{settings.QUEUE}"),)')
        found.append(Error(message, hint=hint, id="mcp_app.E018"))
    return found


@register
def check_results(**kwargs: Any) -> list[CheckMessage]:
    """Celery's own view of a call is kept where the admin looks for it."""
    if not apps.is_installed("django_celery_results"):
        hint = lines.in_settings('INSTALLED_APPS += ["django_celery_results"]', 'CELERY_RESULT_BACKEND = "django-db"')
        message = "The app django_celery_results is missing, which keeps Celery's own view of a call."
        return [Error(message, hint=hint, id="mcp_app.E015")]
    if not _has_app():
        return []
    backend = str(current_app.conf.result_backend or "")
    if backend.startswith(("django-db", "django_celery_results")):
        return []
    message = "Celery's own view of a call is not kept beside it: CELERY_RESULT_BACKEND is not django-db."
    return [Warning(message, hint=lines.in_settings('CELERY_RESULT_BACKEND = "django-db"'), id="mcp_app.W002")]


@register
def check_workers(**kwargs: Any) -> list[CheckMessage]:
    """Options of the site's that slow tools down, or that tools do not follow."""
    if not _has_app():
        return []
    found: list[CheckMessage] = []
    conf = current_app.conf
    if not conf.get("CELERY_DB_REUSE_MAX", None):
        message = "Celery closes every database connection before and after each call."
        hint = lines.in_settings("CELERY_DB_REUSE_MAX = 1000")
        found.append(Warning(message, hint=hint, id="mcp_app.W004"))
    if conf.task_always_eager:
        message = "CELERY_TASK_ALWAYS_EAGER has no effect on tools: they run in a worker."
        hint = "Remove CELERY_TASK_ALWAYS_EAGER, and start the site by `manage.py mcp serve`, which starts a worker."
        found.append(Warning(message, hint=hint, id="mcp_app.W005"))
    if conf.worker_pool not in ("prefork", "processes"):
        found.append(_without_processes(conf.worker_pool))
    return found


def _without_processes(pool: str) -> CheckMessage:
    """`threads` and our own run tools, and kill none; any other pool runs none."""
    message = f"CELERY_WORKER_POOL is {pool!r}, in which no tool can run."
    if pool in WITHOUT_KILL:
        killed = [tool.name for tool in registered_tools().values() if tool.cancel_policy == CancelPolicy.KILL]
        named = f", though these say so: {', '.join(sorted(killed))}" if killed else ""
        message = f"CELERY_WORKER_POOL is {pool!r}, in which a tool cannot be killed{named}."
    hint = (
        "Run tools in workers that `manage.py mcp worker` starts, whose pool is prefork unless you say --pool; then "
        "silence this:" + lines.indented('SILENCED_SYSTEM_CHECKS = ["mcp_app.W006"]')
    )
    return Warning(message, hint=hint, id="mcp_app.W006")


def _has_app() -> bool:
    """Whether the site made a Celery app: the one that Celery makes where nobody did has these two names."""
    return (current_app.main, current_app.loader_cls) != ("default", "default")


def _broker_url() -> str:
    """The broker's URL, the first of several."""
    url = current_app.conf.broker_url or ""
    return str(url if isinstance(url, str) else next(iter(url), "")).split(";")[0]


def _accepted(serializer: str) -> bool:
    return any(name in (serializer, f"application/{serializer}") for name in current_app.conf.accept_content)
