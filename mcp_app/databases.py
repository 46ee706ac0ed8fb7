"""Which database holds this app's rows: the alias, its transactions, and the router a site may install.

On SQLite the rows live in a file of their own, or a tool inside a write transaction would block `cancel()`, heartbeats
and progress.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from mcp_app.conf import settings

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


def atomic() -> AbstractContextManager[None]:
    """A transaction on this app's database."""
    block: AbstractContextManager[None] = transaction.atomic(using=settings.DATABASE)
    return block


def on_commit(function: Callable[[], object]) -> None:
    """Call `function` once this app's transaction is committed; at once where there is none."""
    transaction.on_commit(function, using=settings.DATABASE, robust=True)


def connection() -> BaseDatabaseWrapper:
    """This thread's connection to this app's database."""
    return connections[settings.DATABASE]
