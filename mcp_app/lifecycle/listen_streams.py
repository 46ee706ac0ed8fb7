"""The rows of open listen streams: written by the server process that holds them, read by people, who may close them.

A wish to close is a column and a change of the process's own subject, so that its tail hears of it as of any change.
Refuses to end a stream itself: the process that holds it does, and forgets its row then.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Exists
from django.db.models.functions import Now

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle import audit, wakeups
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.processes import not_lost
from mcp_app.models import ChangeVersion, ListenStream
from mcp_app.states import ProcessRole

BATCH = 500
SUBJECT = "listening/"


def subject(server: UUID) -> str:
    """The `ChangeVersion` of a server process: changed when one of its streams is to be closed."""
    return f"{SUBJECT}{server.hex}"


def row(server: UUID, columns: Mapping[str, Any], *, principal_label: str, client_name: str) -> ListenStream:
    """A row to be stored by `store`; what a client says of itself is made to fit."""
    return ListenStream(
        server=server,
        principal_label=audit.clean(principal_label, audit.NAME_CHARS),
        client_name=audit.clean(client_name, audit.NAME_CHARS),
        **columns,
    )


@transactional
def store(opened: Collection[ListenStream], ended: Collection[UUID]) -> None:
    """Add the rows of streams that were opened, and forget those that have ended."""
    ListenStream.objects.bulk_create(opened, ignore_conflicts=True)
    ListenStream.objects.filter(pk__in=ended).delete()


@transactional
def forget_server(server: UUID) -> None:
    """Forget all streams of one server process: it has ended them."""
    ListenStream.objects.filter(server=server).delete()


@transactional
def close(stream_ids: Iterable[UUID], *, by: str) -> int:
    """Ask the processes that hold these streams to end them; how many nobody had asked to close before."""
    open_ones = ListenStream.objects.filter(pk__in=list(stream_ids), close_requested_at__isnull=True)
    servers = set(open_ones.order_by().values_list("server", flat=True))
    asked = open_ones.update(close_requested_at=Now(), close_requested_by=audit.clean(by, audit.NAME_CHARS))
    for server in sorted(servers):
        ChangeVersion.bump(subject(server))
    databases.on_commit(lambda: wakeups.wake_servers(servers))
    return asked


def to_close(server: UUID) -> list[UUID]:
    """The streams of one server process that somebody asked to close."""
    asked = ListenStream.objects.filter(server=server, close_requested_at__isnull=False)
    return list(asked.values_list("pk", flat=True))


def forget_those_of_silent_servers() -> None:
    """The connections to a dead server process have ended. A step of supervision."""
    alive = not_lost("server", ProcessRole.SERVER)
    orphans = ListenStream.objects.filter(opened_at__lt=from_now(-settings.LOST_AFTER)).exclude(Exists(alive))
    if ids := list(orphans.values_list("pk", flat=True)[:BATCH]):
        store([], ids)
