"""The rows of tools, with the overrides of administrators.

There is a row for each tool that was ever registered.

Every change bumps the version of the tool list in its own transaction, so a change that is rolled
back notifies no client. A script that saves or deletes a row by itself has the same effect, by a
signal.
"""

from collections.abc import Collection
from typing import Any

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from mcp_app import databases
from mcp_app.catalogue import audiences, changes
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.conf import settings
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.models import ChangeVersion, Tool
from mcp_app.models.utc_date_time import Now

SUBJECT = changes.TOOLS
_VERSION = f"SELECT SUM(version) FROM {ChangeVersion._meta.db_table} WHERE subject = %s OR subject LIKE %s"  # noqa: S608 - a name of ours
"""Plain SQL, because it runs for every list."""
_OF_LIST = (SUBJECT, f"{SUBJECT}:%")
_MAX_LOCATION_CHARS = 255


def version() -> int:
    """Return the version of the tool list. It grows with every change in any process."""
    [(version,)] = databases.rows(databases.connection(), _VERSION, _OF_LIST)
    return int(version or 0)


def touch(*names: str) -> None:
    """Bump the version of the tool list for the callers who may use one of these tools.

    Without names, for all callers who may use any tool. Listeners are woken after the commit.
    """
    changes.touch(*audiences.subjects_of(SUBJECT, names))


@transactional
def sync() -> None:
    """Add rows for new tools, and mark the rows whose tools this process does not have."""
    # Two processes that start at once take turns by locking the version's row.
    ChangeVersion.objects.get_or_create(subject=SUBJECT)
    ChangeVersion.objects.select_for_update().get(subject=SUBJECT)
    tools, rows = registered_tools(), Tool.objects.in_bulk()
    added = [Tool(name=name, location=_location(tool)) for name, tool in tools.items() if name not in rows]
    Tool.objects.bulk_create(added)
    moved = [row for name, row in rows.items() if name in tools and _refresh(row, tools[name])]
    gone = [row for name, row in rows.items() if name not in tools and row.registered]
    for row in gone:
        row.registered = False
    for row in [*moved, *gone]:
        row.updated_at = Now()
    Tool.objects.bulk_update([*moved, *gone], ["location", "registered", "updated_at"])
    if changed := [row.name for row in (*added, *moved, *gone)]:
        touch(*changed)


@transactional
def change(names: Collection[str], **values: Any) -> list[str]:
    """Set columns of several tools in one change, and return the names of the rows that changed.

    `values`: `enabled`, or overrides, where `None` means "as declared". They are not validated
        here.
    """
    differing = Tool.objects.filter(pk__in=names).exclude(**values) if values else Tool.objects.none()
    changed = list(differing.select_for_update().values_list("pk", flat=True))
    if changed:
        Tool.objects.filter(pk__in=changed).update(**values, updated_at=Now())
        touch(*changed)
    return changed


def set_enabled(name: str, enabled: bool) -> bool:
    """Enable or disable a tool. Return whether that changed its row."""
    return bool(change([name], enabled=enabled))


@transactional
def forget(name: str) -> bool:
    """Delete the row of a tool whose code is gone, with its overrides.

    Return `False` if the code exists.
    """
    forgotten, _ = Tool.objects.filter(pk=name, registered=False).delete()
    return bool(forgotten)


@receiver((post_save, post_delete), sender=Tool)
def _touch_saved(instance: Tool, **_: Any) -> None:
    touch(instance.name)


def declared_queues() -> set[str]:
    """Return the default queue and the queues that tools declare."""
    declared = {tool.queue for tool in registered_tools().values()}
    return {queue for queue in {settings.QUEUE, *declared} if queue}


def queues() -> set[str]:
    """Return every Celery queue that calls may be sent to, with the overrides of administrators."""
    overrides = Tool.objects.exclude(queue=None).values_list("queue", flat=True)
    return declared_queues() | {queue for queue in overrides if queue}


def _refresh(row: Tool, tool: RegisteredTool) -> bool:
    location = _location(tool)
    if row.registered and row.location == location:
        return False
    row.registered, row.location = True, location
    return True


def _location(tool: RegisteredTool) -> str:
    return tool.location[:_MAX_LOCATION_CHARS]
