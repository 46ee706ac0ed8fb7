"""The GET stream of a legacy session: which connection has it, and which changes it has sent.

A client may open several GET requests in a session, to different server processes, but each
notification must be sent on one of them only. So the newest connection claims the stream in the
session's row.

`Session.told` holds, for each subject, the version of the last notification and the number of its
event. A change that occurred while there was no connection is therefore sent on the next one. A
notification means "list again", so one of them is enough for any number of changes.

When another connection claims the stream, the session's `ChangeVersion` changes, so that all
connections of the session notice.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from django.db.models import Exists

from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.liveness.processes import not_lost
from mcp_app.lifecycle.sessions import sessions
from mcp_app.models import Session
from mcp_app.states import ProcessRole


@transactional
def claim(session_id: UUID, stream: UUID, server: UUID, *, seen: int | None = None) -> Session | None:
    """Give the session's stream to this connection.

    `seen` is the last event that the client has received, by its `Last-Event-ID` header. Later
    notifications are then sent again. The new value of `stream_seq` is reserved as an event number
    for the connection itself.

    Return the session, or `None` if it has ended.
    """
    session = Session.objects.select_for_update().filter(pk=session_id).first()
    if session is None:
        return None
    session.stream, session.stream_server = stream, server
    session.stream_seq += 1
    if seen is not None:
        session.told = {subject: [version, seq] for subject, (version, seq) in session.told.items() if seq <= seen}
    session.save(update_fields=["stream", "stream_server", "stream_seq", "told"])
    sessions.notify_changed(session_id)
    return session


def undelivered(session_id: UUID, current: Mapping[str, int]) -> set[str]:
    """Return the subjects of `current`, a mapping to versions, whose change was not sent yet."""
    sent = Session.objects.filter(pk=session_id).values_list("told", flat=True).first() or {}
    return {subject for subject, version in current.items() if _is_new(sent, subject, version)}


@transactional
def claim_events(
    session_id: UUID,
    stream: UUID,
    server: UUID,
    current: Mapping[str, int],
    *,
    skipped: Collection[str] = (),
) -> list[tuple[str, int]]:
    """Return the changes that this connection must send, as pairs of subject and event number.

    They count as sent from now on. `current` maps the subjects to the versions that the connection
    knows. Changes of the subjects in `skipped` count as sent, but are not returned. If no
    connection has the stream, this one claims it. If another has it, the result is empty.
    """
    session = Session.objects.select_for_update().filter(pk=session_id).first()
    if session is None or session.stream not in (stream, None):
        return []
    is_new = session.stream is None
    events = []
    for subject, version in current.items():
        if not _is_new(session.told, subject, version):
            continue
        if subject in skipped:
            session.told[subject] = [version, session.stream_seq]
            continue
        session.stream_seq += 1
        session.told[subject] = [version, session.stream_seq]
        events.append((subject, session.stream_seq))
    if is_new:
        session.stream, session.stream_server = stream, server
        sessions.notify_changed(session_id)
    if events or skipped or is_new:
        session.save(update_fields=["stream", "stream_server", "stream_seq", "told"])
    return events


@transactional
def release(session_id: UUID, stream: UUID) -> None:
    """Release the stream, if this connection has it, so that another one can claim it."""
    if Session.objects.filter(pk=session_id, stream=stream).update(stream=None):
        sessions.notify_changed(session_id)


def _is_new(sent: Mapping[str, Sequence[int]], subject: str, version: int) -> bool:
    """Return whether a version is newer than the one that was sent last."""
    return sent.get(subject, [-1])[0] < version


def release_those_of_silent_servers() -> None:
    """Release the streams that dead server processes have. A step of supervision."""
    alive = not_lost("stream_server", ProcessRole.SERVER)
    claimed = Session.objects.filter(stream__isnull=False).exclude(Exists(alive))
    for session_id, stream in claimed.values_list("pk", "stream"):
        if stream is not None:
            release(session_id, stream)
