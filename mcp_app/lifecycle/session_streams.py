"""A session's own stream, the one of its GET: each message goes to one connection, whatever their number.

The newest connection has it; it is claimed in the session's row by compare-and-set, and what was told is kept there, so
that a change that met no connection, or one that died, is told to the next. Changes say "look again", so that one
message stands for any number of them. Who has the stream is a change of the session, so that every connection knows.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from django.db.models import Exists

from mcp_app.lifecycle import sessions
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.processes import not_lost
from mcp_app.models import Session
from mcp_app.states import ProcessRole


@transactional
def claim(session_id: UUID, stream: UUID, server: UUID, *, seen: int | None = None) -> Session | None:
    """Give the session's stream to this connection; its row, None when the session has ended.

    A number of an event is spent on the connection itself: `stream_seq` of the row, used nowhere else.

    `seen` is the last event that its client had of the stream, None where it does not say: what was told after it is
    to be told again.
    """
    session = Session.objects.select_for_update().filter(pk=session_id).first()
    if session is None:
        return None
    session.stream, session.stream_server = stream, server
    session.stream_seq += 1
    if seen is not None:
        session.told = {subject: [version, seq] for subject, (version, seq) in session.told.items() if seq <= seen}
    session.save(update_fields=["stream", "stream_server", "stream_seq", "told"])
    sessions.changed(session_id)
    return session


def untold(session_id: UUID, current: Mapping[str, int]) -> set[str]:
    """Those of these subjects, with the versions that a connection knows, of whose change the session was not told."""
    told = Session.objects.filter(pk=session_id).values_list("told", flat=True).first() or {}
    return {subject for subject, version in current.items() if _is_new(told, subject, version)}


@transactional
def tell(
    session_id: UUID,
    stream: UUID,
    server: UUID,
    current: Mapping[str, int],
    *,
    passed_over: Collection[str] = (),
) -> list[tuple[str, int]]:
    """Which subjects this connection to `server` is to tell of, each with the number of its event; they count as told.

    `current` are the versions of the subjects that it knows of. Empty when another connection has the stream; one that
    nobody has is claimed. What is `passed_over` counts as told, and is not.
    """
    session = Session.objects.select_for_update().filter(pk=session_id).first()
    if session is None or session.stream not in (stream, None):
        return []
    is_new = session.stream is None
    events = []
    for subject, version in current.items():
        if not _is_new(session.told, subject, version):
            continue
        if subject in passed_over:
            session.told[subject] = [version, session.stream_seq]
            continue
        session.stream_seq += 1
        session.told[subject] = [version, session.stream_seq]
        events.append((subject, session.stream_seq))
    if is_new:
        session.stream, session.stream_server = stream, server
        sessions.changed(session_id)
    if events or passed_over or is_new:
        session.save(update_fields=["stream", "stream_server", "stream_seq", "told"])
    return events


@transactional
def release(session_id: UUID, stream: UUID) -> None:
    """Leave the stream to another open connection, if this one has it."""
    if Session.objects.filter(pk=session_id, stream=stream).update(stream=None):
        sessions.changed(session_id)


def _is_new(told: Mapping[str, Sequence[int]], subject: str, version: int) -> bool:
    """Versions grow: a connection whose look is older tells nothing again."""
    return told.get(subject, [-1])[0] < version


def release_those_of_silent_servers() -> None:
    """The connections to a dead server process have ended. A step of supervision."""
    alive = not_lost("stream_server", ProcessRole.SERVER)
    claimed = Session.objects.filter(stream__isnull=False).exclude(Exists(alive))
    for session_id, stream in claimed.values_list("pk", "stream"):
        if stream is not None:
            release(session_id, stream)
