"""What prompts and resources ask of legacy clients: nothing else of them is stored, and any process may get the answer.

The process that serves one waits; the one that is sent the answer leaves it here, unread, and wakes the other. Refuses
answers of another session, a second answer, and more questions of one caller than may be open.
Source: 2025-11-25 basic/transports "Sending Messages to the Server".
"""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from mcp_app import databases
from mcp_app.auth.principal import Principal
from mcp_app.conf import settings
from mcp_app.lifecycle import events, wakeups
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.processes import not_lost
from mcp_app.models import ChangeVersion, ReadQuestion, Session
from mcp_app.states import ProcessRole


class TooManyQuestionsError(Exception):
    """The caller has as many questions open as may be."""


class NobodyAsksError(Exception):
    """What asked was cancelled, its session has ended, or its server process was taken for dead."""


def subject(read: UUID) -> str:
    """The `ChangeVersion` of what asks: changed when it is answered, or cancelled."""
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
    """Note questions before they are sent. Raises `TooManyQuestionsError`, `NobodyAsksError`."""
    # The session's row is the lock that its end takes as well.
    if session is not None and Session.objects.select_for_update().filter(pk=session).first() is None:
        raise NobodyAsksError
    if _of(principal).count() + len(numbers) > settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL:
        raise TooManyQuestionsError
    ReadQuestion.objects.bulk_create(
        ReadQuestion(
            read=read,
            number=number,
            session=session,
            **principal.columns,
            jsonrpc_id=jsonrpc_id,
            server=server,
        )
        for number in numbers
    )


@transactional
def answer(read: UUID, number: int, message: Mapping[str, Any], *, session: UUID | None, principal: Principal) -> None:
    """Leave the answer for the process that waits; nothing where it is not asked in this session, or not any more."""
    unanswered = _of(principal).select_for_update().filter(read=read, number=number, session=session)
    row = unanswered.filter(answer__isnull=True).first()
    if row is None:
        return
    ReadQuestion.objects.filter(pk=row.pk).update(answer=events.storable(dict(message)))
    _tell(row.read, row.server)


@transactional
def take(read: UUID, numbers: Collection[int]) -> dict[int, dict[str, Any]]:
    """The answers that are there to these questions, by number; each is given once. Raises `NobodyAsksError`."""
    rows = list(ReadQuestion.objects.select_for_update().filter(read=read, number__in=numbers))
    if len(rows) < len(numbers):
        raise NobodyAsksError
    answered = {row.number: row.answer for row in rows if row.answer is not None}
    if answered:
        ReadQuestion.objects.filter(read=read, number__in=answered).delete()
    return answered


@transactional
def forget(read: UUID) -> None:
    """Nobody waits for its answers any more."""
    _forget([read])


@transactional
def cancel(session: UUID, jsonrpc_id: str | int) -> bool:
    """Have the session's requests of this id end that ask; whether any does."""
    asking = _asking(ReadQuestion.objects.filter(session=session))
    meant = [each for each in asking if type(each[1]) is type(jsonrpc_id) and each[1] == jsonrpc_id]
    for read, _, server in meant:
        _end(read, server)
    return bool(meant)


def asked_of(column: str) -> QuerySet[ReadQuestion]:
    """For `Exists`: what is asked in the session named by the outer row's `column`."""
    return ReadQuestion.objects.filter(session=OuterRef(column))


def forget_session(session_ids: Collection[UUID]) -> None:
    """A session ends with what it asks; in the transaction that ends it."""
    for read, _, server in _asking(ReadQuestion.objects.filter(session__in=session_ids)):
        _end(read, server)


def forget_orphans() -> None:
    """What a dead process served is not served any more, nor what it failed to forget. A step of supervision."""
    alive = not_lost("server", ProcessRole.SERVER)
    overdue = Q(asked_at__lt=from_now(-settings.MAX_INPUT_SECONDS - settings.LOST_AFTER))
    orphans = ReadQuestion.objects.filter(~Q(Exists(alive)) | overdue).values_list("read", flat=True)
    if reads := list(orphans.distinct()):
        _forget_all(reads)


@transactional
def _forget_all(reads: Collection[UUID]) -> None:
    _forget(reads)


def _forget(reads: Collection[UUID]) -> None:
    ReadQuestion.objects.filter(read__in=reads).delete()
    ChangeVersion.objects.filter(pk__in=[subject(read) for read in reads]).delete()


def _end(read: UUID, server: UUID) -> None:
    # What was forgotten meanwhile has nobody who would forget that it is told.
    deleted, _ = ReadQuestion.objects.filter(read=read).delete()
    if deleted:
        _tell(read, server)


def _asking(rows: QuerySet[ReadQuestion]) -> set[tuple[UUID, str | int, UUID]]:
    return set(rows.values_list("read", "jsonrpc_id", "server"))


def _tell(read: UUID, server: UUID) -> None:
    ChangeVersion.bump(subject(read))
    databases.on_commit(lambda: wakeups.wake_server(server))


def _of(principal: Principal) -> QuerySet[ReadQuestion]:
    return ReadQuestion.objects.filter(**principal.columns)
