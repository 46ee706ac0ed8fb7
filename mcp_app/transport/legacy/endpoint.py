"""HTTP requests of the legacy era: their session, then what they hold.

A session that is named must be its principal's and live, whatever else is asked; without one each request stands for
itself. Source: 2025-11-25 basic/transports "Session Management", "Sending Messages to the Server".
"""

import json
from types import MappingProxyType
from typing import Final
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle import read_questions, sessions
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.models import Session
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, clip, refuse, session_not_found
from mcp_app.protocol.headers import HeaderFault, Headers, read_field
from mcp_app.protocol.jsonrpc import Answer, Limits, Notification, Request
from mcp_app.protocol.legacy_inbound import LAST_EVENT, SESSION, LegacyPost, check_batch
from mcp_app.protocol.legacy_requests import Cancelled, Handshake, read_cancelled, to_route
from mcp_app.protocol.legacy_sse import read_event_id
from mcp_app.protocol.revisions import Revision
from mcp_app.states import Cause
from mcp_app.transport.dispatch import Handlers, dispatch
from mcp_app.transport.http import Response
from mcp_app.transport.legacy import asking_reads, batches, calls, get_stream, methods, questions
from mcp_app.transport.legacy.http_exchange import HTTPExchange, Peer

HANDLERS: Final[Handlers[HTTPExchange]] = MappingProxyType({**methods.HANDLERS, "tools/call": calls.serve})


async def serve_post(peer: Peer, post: LegacyPost) -> None:
    """Serve a POST: one message or a batch."""
    requests = [message for message in post.messages if isinstance(message, Request | Rejection)]
    if len(requests) == 1 and isinstance(requests[0], Request):
        peer.request_id = requests[0].request_id
    session = await _session(peer)
    if isinstance(session, Rejection):
        await _note_attempts(peer, post)
        await peer.response.reject(session)
        return
    revision = post.revision(session.protocol_version if session is not None else None)
    if (refusal := check_batch(post, revision)) is not None:
        await peer.response.reject(refusal)
        return
    for message in post.messages:
        if isinstance(message, Notification):
            await _notified(peer, session, message)
        elif isinstance(message, Answer) and session is not None:
            await questions.take(peer.server, message, principal=peer.principal, session_id=session.pk)

    async def serve(message: Request, response: Response | None = None) -> None:
        await _serve(peer, post, session, revision, message, response)

    if not requests:
        await peer.response.accepted()
    elif post.is_batch:
        await batches.serve(peer, requests, serve, as_stream=post.accept.event_stream)
    else:
        assert isinstance(requests[0], Request), "a single message that cannot be read was refused"
        await serve(requests[0])


async def serve_without_body(peer: Peer, method: str) -> None:
    """Serve a GET or DELETE of a session."""
    session = await _session(peer)
    if isinstance(session, Rejection) or session is None:
        await peer.response.reject(session or session_not_found())
    elif method == "DELETE":
        await peer.server.rows.run(_end, session.pk, peer)
        await peer.response.done()
    else:
        await _listen(peer, session)


def _end(session_id: UUID, peer: Peer) -> None:
    sessions.end(session_id, actor=peer.actor)


async def _listen(peer: Peer, session: Session) -> None:
    last = read_field(peer.headers, LAST_EVENT)
    if last is None:
        await get_stream.serve(peer, session)
        return
    event_id = read_event_id(last) if isinstance(last, str) else None
    if event_id is None:
        await peer.response.reject(calls.unknown_event())
    elif event_id.request is None:
        await get_stream.serve(peer, session, seen=event_id.seq)
    else:
        await calls.resume(peer, session.pk, event_id.request, event_id.seq)


async def _session(peer: Peer) -> Session | Rejection | None:
    """The session that is named; None where none is."""
    named = _read_session_id(peer.headers, peer)
    if named is None or isinstance(named, Rejection):
        return named
    session = await peer.server.rows.run(sessions.find, named, peer.principal)
    return session_not_found(peer.request_id) if session is None else session


def _read_session_id(headers: Headers, peer: Peer) -> UUID | Rejection | None:
    text = read_field(headers, SESSION)
    if text is None:
        return None
    if isinstance(text, HeaderFault):
        return refuse(INVALID_REQUEST, text.reason, peer.request_id)
    try:
        session_id = UUID(hex=text)
    except ValueError:
        return session_not_found(peer.request_id)
    return session_id if session_id.hex == text else session_not_found(peer.request_id)


async def _serve(
    peer: Peer,
    post: LegacyPost,
    session: Session | None,
    revision: Revision,
    request: Request,
    response: Response | None,
) -> None:
    route = to_route(request, revision, _handshake(session), post.accept, Limits(max_depth=settings.MAX_DEPTH))
    if isinstance(route, Rejection):
        await (response or peer.response).reject(route)
    else:
        await dispatch(HTTPExchange.of(peer, route, revision, session, response), HANDLERS)


def _handshake(session: Session | None) -> Handshake:
    if session is None:
        return Handshake()
    return Handshake(session.client_capabilities, session.client_info, session.log_level or None)


async def _notified(peer: Peer, session: Session | None, notification: Notification) -> None:
    """Only a cancellation has an effect, and only in a session: without one its id says nothing.

    One of a call that has ended, or of none, is audited as an attempt, and nothing is said of it.
    """
    if session is None or notification.method != "notifications/cancelled":
        return
    cancelled = read_cancelled(notification)
    if cancelled is None:
        return
    if await peer.server.rows.run(read_questions.cancel, session.pk, cancelled.request_id):
        return
    if asking_reads.cancel(peer.server, session.pk, cancelled.request_id):
        return
    await _cancel(peer, session.pk, cancelled)


async def _note_attempts(peer: Peer, post: LegacyPost) -> None:
    """Audit what is asked to be cancelled in a session that is not the caller's: denied, or unknown; told alike."""
    named = _read_session_id(peer.headers, peer)
    if not isinstance(named, UUID):
        return
    for message in post.messages:
        if isinstance(message, Notification) and message.method == "notifications/cancelled":
            cancelled = read_cancelled(message)
            if cancelled is not None:
                await _cancel(peer, named, cancelled)


async def _cancel(peer: Peer, session_id: UUID, cancelled: Cancelled) -> None:
    request_id = await peer.server.rows.run(sessions.call_named, session_id, cancelled.request_id)
    target = request_id or f"id {clip(json.dumps(cancelled.request_id))}"
    ask = Ask(target, Cause.CLIENT, peer.actor, cancelled.reason, peer.principal)
    await peer.server.cancellations.cancel(ask)
