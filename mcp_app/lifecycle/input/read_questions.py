"""Questions of prompts and resources to legacy clients.

A prompt or resource is read in a server process, which waits for the answers. But the client may
send an answer to another server process. That one stores it here, unchecked, and wakes the process
that is waiting. Nothing else of a read is stored.

Only the session that was asked can answer, and each question is answered only once. The number of
open questions per caller is limited. Source: 2025-11-25 basic/transports "Sending Messages to the
Server".
"""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.liveness import wakeups
from mcp_app.lifecycle.liveness.processes import not_lost
from mcp_app.models import ChangeVersion, ReadQuestion, Session
from mcp_app.states import ProcessRole


class TooManyQuestionsError(Exception):
    """The caller has too many open questions."""


class ReadEndedError(Exception):
    """The read was cancelled, its session has ended, or its server process counts as dead."""


def subject(read: UUID) -> str:
    """Return the subject of a read's `ChangeVersion`: it changes at an answer or cancellation."""
    return f"read/{read.hex}"


@transactional
def ask(
    read: UUID,
    numbers: Collection[int],
    *,
    jsonrpc_id: str | int,
    session: UUID | None,
    principal: Principal,
    server: UUID,
) -> None:
    """Store questions before they are sent. Raises `TooManyQuestionsError` or `ReadEndedError`."""
    # The end of the session locks its row, too.
    if session is not None and Session.objects.select_for_update().filter(pk=session).first() is None:
        raise ReadEndedError
    at_most = settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL
    if not capacity.has_room(principal, _of(principal), at_most, more=len(numbers)):
        raise TooManyQuestionsError
    ReadQuestion.objects.bulk_create(
        ReadQuestion(
            read=read,
            number=number,
            session=session,
            **capacity.columns(principal),
            jsonrpc_id=jsonrpc_id,
            server=server,
        )
        for number in numbers
    )


@transactional
def answer(read: UUID, number: int, message: Mapping[str, Any], *, session: UUID | None, principal: Principal) -> None:
    """Store an answer for the process that is waiting.

    Ignored if the question is not open, or not this session's.
    """
    unanswered = _of(principal).select_for_update().filter(read=read, number=number, session=session)
    row = unanswered.filter(answer__isnull=True).first()
    if row is None:
        return
    ReadQuestion.objects.filter(pk=row.pk).update(answer=storable(dict(message)))
    _notify(row.read, row.server)


@transactional
def take(read: UUID, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the answers that have arrived, by number, and delete them. Raises `ReadEndedError`."""
    rows = list(ReadQuestion.objects.select_for_update().filter(read=read, number__in=numbers))
    if len(rows) < len(numbers):
        raise ReadEndedError
    answered = {row.number: row.answer for row in rows if row.answer is not None}
    if answered:
        ReadQuestion.objects.filter(read=read, number__in=answered).delete()
    return answered


def forget(read: UUID) -> None:
    """Delete the questions of a read that no longer waits for answers."""
    _forget([read])


@transactional
def cancel(session: UUID, jsonrpc_id: str | int) -> bool:
    """End the session's waiting reads with this JSON-RPC id. Return whether there are any."""
    asking = _asking(ReadQuestion.objects.filter(session=session))
    matching = [each for each in asking if type(each[1]) is type(jsonrpc_id) and each[1] == jsonrpc_id]
    for read, _, server in matching:
        _end(read, server)
    return bool(matching)


def asked_of(column: str) -> QuerySet[ReadQuestion]:
    """Return the questions of the outer row's session, for `Exists`. `column` holds its key."""
    return ReadQuestion.objects.filter(session=OuterRef(column))


def forget_session(session_ids: Collection[UUID]) -> None:
    """End the reads of sessions that end, in the same transaction."""
    for read, _, server in _asking(ReadQuestion.objects.filter(session__in=session_ids)):
        _end(read, server)


def forget_orphans() -> None:
    """Delete questions of dead server processes, and overdue ones. A step of supervision."""
    alive = not_lost("server", ProcessRole.SERVER)
    overdue = Q(asked_at__lt=from_now(-settings.MAX_INPUT_SECONDS - settings.LOST_AFTER))
    orphans = ReadQuestion.objects.filter(~Q(Exists(alive)) | overdue).values_list("read", flat=True)
    if reads := list(orphans.distinct()):
        _forget(reads)


@transactional
def _forget(reads: Collection[UUID]) -> None:
    ReadQuestion.objects.filter(read__in=reads).delete()
    ChangeVersion.objects.filter(pk__in=[subject(read) for read in reads]).delete()


def _end(read: UUID, server: UUID) -> None:
    # If the questions are deleted already, no process is waiting that would delete the
    # `ChangeVersion`.
    deleted, _ = ReadQuestion.objects.filter(read=read).delete()
    if deleted:
        _notify(read, server)


def _asking(rows: QuerySet[ReadQuestion]) -> set[tuple[UUID, str | int, UUID]]:
    return set(rows.values_list("read", "jsonrpc_id", "server"))


def _notify(read: UUID, server: UUID) -> None:
    ChangeVersion.bump(subject(read))
    databases.on_commit(lambda: wakeups.wake_server(server))


def _of(principal: Principal) -> QuerySet[ReadQuestion]:
    return ReadQuestion.objects.filter(**principal.columns)
