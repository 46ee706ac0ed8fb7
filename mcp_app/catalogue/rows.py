"""The rows of the catalogue: one for each tool that was ever registered, and the version of the whole list.

Every change to what is offered goes through here and bumps the version in its own transaction: a change that is rolled
back notifies nobody. What a script saves or deletes by itself is a change like any other.
"""

from collections.abc import Collection
from typing import Any

from django.db.models.functions import Now
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from mcp_app import databases
from mcp_app.catalogue import audiences, changes
from mcp_app.catalogue.registry import RegisteredTool, registered_tools
from mcp_app.conf import settings
from mcp_app.lifecycle import prepared
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import ChangeVersion, Tool

SUBJECT = changes.TOOLS
_VERSION = f"SELECT SUM(version) FROM {ChangeVersion._meta.db_table} WHERE subject = %s OR subject LIKE %s"  # noqa: S608 - a name of ours
"""Written out because every list pays for it."""
_OF_LIST = (SUBJECT, f"{SUBJECT}:%")
_MAX_LOCATION_CHARS = 255


def version() -> int:
    """The version of the tool list; it grows with every change, in whatever process it is made."""
    [(version,)] = prepared.rows(databases.connection(), _VERSION, _OF_LIST)
    return int(version or 0)


def touch(*names: str) -> None:
    """Bump the version of the tool list: who may have one of these, or anything where none is named, looks again once
    this is committed."""
    changes.touch(*audiences.subjects_of(SUBJECT, names))


@transactional
def sync() -> None:
    """Make the rows say which tools this process has: new ones are added, those whose code went away are marked."""
    # The version's row is the lock that two processes starting at once take in turn.
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
    """Give some tools these values in their rows' columns, as one change; the names of those for which it was one.

    `values`: `enabled`, or overrides, None being "as the code says". They are not checked here.
    """
    differing = Tool.objects.filter(pk__in=names).exclude(**values) if values else Tool.objects.none()
    changed = list(differing.select_for_update().values_list("pk", flat=True))
    if changed:
        Tool.objects.filter(pk__in=changed).update(**values, updated_at=Now())
        touch(*changed)
    return changed


def set_enabled(name: str, enabled: bool) -> bool:
    """Offer a tool, or stop offering it; whether that changed anything."""
    return bool(change([name], enabled=enabled))


@transactional
def forget(name: str) -> bool:
    """Drop the row of a tool whose code went away, with what administrators said; False where the code is there."""
    forgotten, _ = Tool.objects.filter(pk=name, registered=False).delete()
    return bool(forgotten)


@receiver((post_save, post_delete), sender=Tool)
def _touch_saved(instance: Tool, **_: Any) -> None:
    touch(instance.name)


def declared_queues() -> set[str]:
    """The Celery queues that tools are sent to unless an administrator says otherwise: the default and the code's."""
    declared = {tool.queue for tool in registered_tools().values()}
    return {queue for queue in {settings.QUEUE, *declared} if queue}


def queues() -> set[str]:
    """Every Celery queue that a tool may be sent to: those, and the administrators'."""
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
