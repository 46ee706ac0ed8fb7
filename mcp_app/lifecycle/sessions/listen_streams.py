"""The rows of open listen streams, by which administrators can list and close them.

The server process that has a stream adds and deletes its row. To close a stream, the admin sets
`close_requested_at` and changes the `ChangeVersion` of that process, which its row watcher notices.
The process then ends the stream and deletes the row.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Exists

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle.audit import attempts
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.liveness.processes import not_lost
from mcp_app.models import ChangeVersion, ListenStream
from mcp_app.models.utc_date_time import Now
from mcp_app.states import ProcessRole

BATCH = 500
SUBJECT = "listening/"


def subject(server: UUID) -> str:
    """Return the subject of the `ChangeVersion` that changes when a process must close streams."""
    return f"{SUBJECT}{server.hex}"


def build_row(server: UUID, columns: Mapping[str, Any], *, principal_label: str, client_name: str) -> ListenStream:
    """Return an unstored row, with the client's texts cleaned and shortened to fit the columns."""
    return ListenStream(
        server=server,
        principal_label=attempts.clean(principal_label, attempts.NAME_CHARS),
        client_name=attempts.clean(client_name, attempts.NAME_CHARS),
        **columns,
    )


@transactional
def store(opened: Collection[ListenStream], ended: Collection[UUID]) -> None:
    """Add the rows of opened streams, and delete the rows of ended ones."""
    ListenStream.objects.bulk_create(opened, ignore_conflicts=True)
    ListenStream.objects.filter(pk__in=ended).delete()


@transactional
def forget_server(server: UUID) -> None:
    """Delete the rows of a server process that has ended all its streams."""
    ListenStream.objects.filter(server=server).delete()


@transactional
def close(stream_ids: Iterable[UUID], *, by: str) -> int:
    """Ask the server processes to close these streams.

    Return the number of streams for which this was not requested before.
    """
    open_ones = ListenStream.objects.filter(pk__in=list(stream_ids), close_requested_at__isnull=True)
    servers = set(open_ones.order_by().values_list("server", flat=True))
    asked = open_ones.update(close_requested_at=Now(), close_requested_by=attempts.clean(by, attempts.NAME_CHARS))
    for server in sorted(servers):
        ChangeVersion.bump(subject(server))
    databases.on_commit(lambda: wakeups.wake_servers(servers))
    return asked


def list_close_requested(server: UUID) -> list[UUID]:
    """Return the ids of a server process's streams that it must close."""
    asked = ListenStream.objects.filter(server=server, close_requested_at__isnull=False)
    return list(asked.values_list("pk", flat=True))


def forget_those_of_silent_servers() -> None:
    """Delete the streams of dead server processes. A step of supervision."""
    alive = not_lost("server", ProcessRole.SERVER)
    orphans = ListenStream.objects.filter(opened_at__lt=from_now(-settings.LOST_AFTER)).exclude(Exists(alive))
    if ids := list(orphans.values_list("pk", flat=True)[:BATCH]):
        store([], ids)
