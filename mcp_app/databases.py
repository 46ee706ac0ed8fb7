"""Which database holds this app's rows: the alias, its transactions, and the router a site may install.

On SQLite the rows live in a file of their own, or a tool inside a write transaction would block `cancel()`, heartbeats
and progress.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import InterfaceError, InternalError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from mcp_app.conf import settings

try:
    import fcntl
except ImportError:  # not a POSIX system: SQLite waits as it does
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

AWAY = (OperationalError, InterfaceError, InternalError)
"""What is raised by a database that is away, or takes no writes for now, as a standby of PostgreSQL's does."""

TURN_SECONDS = 5.0
TURN_LOOK_SECONDS = 0.0001
"""From look to look at first: a statement's turn takes little more."""
LONG_TURN_LOOK_SECONDS = 0.0005
LONG_TURN = 20
"""Looks after which the turn is somebody's who has more to write than a statement."""

ROUTED_APPS = frozenset({"mcp_app", "django_celery_results"})


class MCPRouter:
    """Sends this app's rows, and Celery's results beside them, to `MCP["DATABASE"]`."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return settings.DATABASE if model._meta.app_label in ROUTED_APPS else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        if app_label in ROUTED_APPS:
            return bool(db == settings.DATABASE)
        return False if db == settings.DATABASE != "default" else None


@contextmanager
def atomic() -> Iterator[None]:
    """A transaction on this app's database."""
    with turn(connection()), transaction.atomic(using=settings.DATABASE):
        yield


def on_commit(function: Callable[[], object]) -> None:
    """Call `function` once this app's transaction is committed; at once where there is none.

    What it raises is logged: what was written is.
    """
    wrapper = connection()
    if wrapper.in_atomic_block:
        wrapper.on_commit(function, robust=True)
        return
    try:
        function()
    except Exception:
        logger.exception("what follows a statement failed")


def connection() -> BaseDatabaseWrapper:
    """This thread's connection to this app's database."""
    return connections[settings.DATABASE]


@contextmanager
def turn(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """On SQLite, a turn to write, as `atomic` has it: its own waiting sleeps ever longer between looks, up to 100 ms.

    An advisory lock beside the database file. Whoever has waited too long for it goes on to SQLite's own lock, so that
    a process that was stopped while it wrote costs the others what it costs without turns: an error, tried again.
    """
    name = str(wrapper.settings_dict["NAME"])
    if wrapper.vendor != "sqlite" or wrapper.in_atomic_block or "memory" in name or fcntl is None:
        yield
        return
    descriptor = os.open(f"{name}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _await_turn(descriptor)
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # not by closing: a process forked meanwhile has it open, too
        os.close(descriptor)


def _await_turn(descriptor: int) -> None:
    give_up_at = time.monotonic() + TURN_SECONDS
    looks = 0
    while time.monotonic() < give_up_at:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            looks += 1
            # No event to wait for: a lock that is waited for in the kernel has no time limit.
            time.sleep(TURN_LOOK_SECONDS if looks <= LONG_TURN else LONG_TURN_LOOK_SECONDS)
        else:
            return
