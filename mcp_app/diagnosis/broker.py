"""Check the broker: that it responds, and how fast.

The embedded broker needs a folder that it can write to.
"""

import os
import time
from collections.abc import Iterator
from typing import Final

from celery import current_app

from mcp_app.celery_adapter import broker, consumer
from mcp_app.celery_adapter.broker import SilentBrokerError
from mcp_app.conf import settings
from mcp_app.diagnosis import file_permissions
from mcp_app.diagnosis.examination import Finding, SharedFacts, failed, first_line, ok, warning

NAME: Final = "broker"
PREFETCHES: Final = (
    "A busy worker that `celery` starts keeps calls waiting: CELERY_WORKER_DISABLE_PREFETCH = True avoids that."
)


def check(shared: SharedFacts) -> Iterator[Finding]:
    """Check the broker. Reports the second of two round trips, because the first one connects."""
    folder = _folder()
    if folder is not None and not os.path.isdir(folder):
        yield warning(
            NAME,
            f"{folder}: the folder is not there; no worker has read from it yet.",
            "Start `python manage.py mcp worker`, which makes it, or correct CELERY_BROKER_TRANSPORT_OPTIONS.",
        )
        return
    where = folder or broker.address()
    try:
        broker.reach()
        began_at = time.perf_counter()
        broker.reach()
    except SilentBrokerError as error:
        yield _unreachable(where, error)
        return
    took = (time.perf_counter() - began_at) * 1000
    what = "can be written to" if folder is not None else "answers"
    found = f"{where}: {what} in {took:.1f} ms."
    if folder is not None and file_permissions.others_may(file_permissions.WRITE, folder):
        remedy = f"Run `chmod o-w {folder}`."
        yield warning(NAME, f"{found} Every user of this machine can write messages to it.", remedy)
    else:
        yield ok(NAME, f"{found} {PREFETCHES}" if _prefetches() else found)


def _prefetches() -> bool:
    """Return whether a worker that `celery` starts fetches calls that it cannot run at once."""
    is_redis = consumer.kind_of_broker(current_app) == "redis"
    return is_redis and settings.WORKERS_TAKE_TOOLS and not current_app.conf.worker_disable_prefetch


def check_quickly() -> list[Finding]:
    """Check only that the broker responds, for probes every second."""
    try:
        broker.reach()
    except SilentBrokerError as error:
        return [_unreachable(_folder() or broker.address(), error)]
    return [ok(NAME, "It answers.")]


def _unreachable(where: str, error: SilentBrokerError) -> Finding:
    remedy = "Start it, or correct CELERY_BROKER_URL."
    if _folder() is not None:
        remedy = "Let this user write there, or correct CELERY_BROKER_TRANSPORT_OPTIONS."
    return failed(NAME, f"{where}: does not respond: {first_line(error)}.", remedy)


def _folder() -> str | None:
    """Return the folder of the embedded broker, or `None` for other brokers."""
    folder = current_app.conf.broker_transport_options.get("folder")
    return str(folder) if folder and broker.address().startswith("mcpfs:") else None
