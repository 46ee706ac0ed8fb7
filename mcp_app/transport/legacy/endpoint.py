"""Serve HTTP requests of the legacy era: find their session, then serve their messages.

If a request names a session, the session must be live and belong to the caller. Without a session
each request stands alone. Source: 2025-11-25 basic/transports "Session Management", "Sending
Messages to the Server".
"""

import json
from functools import partial
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.input import read_questions
from mcp_app.lifecycle.sessions import sessions
from mcp_app.models import Session
from mcp_app.protocol.errors import INVALID_REQUEST, Rejection, clip, refuse, session_not_found
from mcp_app.protocol.headers import HeaderFault, Headers, read_field
from mcp_app.protocol.jsonrpc import ClientResponse, Limits, Notification, RequestMessage
from mcp_app.protocol.legacy.inbound import LAST_EVENT, SESSION, LegacyPost, check_batch
from mcp_app.protocol.legacy.requests import Cancelled, Handshake, read_cancelled, to_route
from mcp_app.protocol.revisions import Revision
from mcp_app.protocol.sse import read_event_id
from mcp_app.states import Cause
from mcp_app.transport.http.responses import EndpointResponse
from mcp_app.transport.legacy import asking_reads, batches, calls, get_stream, methods, questions
from mcp_app.transport.legacy.http_peer import HTTPPeer
from mcp_app.transport.methods import dispatch


async def serve_post(peer: HTTPPeer, post: LegacyPost) -> None:
    """Serve a POST: one message or a batch."""
    requests = [message for message in post.messages if isinstance(message, RequestMessage | Rejection)]
    if len(requests) == 1 and isinstance(requests[0], RequestMessage):
        peer.request_id = requests[0].request_id
    if (refusal := await _find_session(peer)) is not None:
        await _audit_attempts(peer, post)
        await peer.response.reject(refusal)
        return
    session = peer.row
    revision = post.choose_revision(session.protocol_version if session is not None else None)
    if (refusal := check_batch(post, revision)) is not None:
        await peer.response.reject(refusal)
        return
    for message in post.messages:
        if isinstance(message, Notification):
            await _handle_notification(peer, message)
        elif isinstance(message, ClientResponse) and session is not None:
            await questions.store_answer(peer.server, message, principal=peer.principal, session_id=session.pk)

    async def serve(request: RequestMessage, member: EndpointResponse | None = None) -> None:
        await _serve(peer, post, revision, request, member)

    if not requests:
        await peer.response.accepted()
    elif post.is_batch:
        await batches.serve(peer, requests, serve, as_stream=post.accept.event_stream)
    else:
        assert isinstance(requests[0], RequestMessage), "a single message that cannot be read was refused"
        await serve(requests[0])


async def serve_without_body(peer: HTTPPeer, method: str) -> None:
    """Serve a GET or DELETE of a session."""
    refusal = await _find_session(peer)
    if refusal is not None or peer.row is None:
        await peer.response.reject(refusal or session_not_found())
    elif method == "DELETE":
        await peer.server.rows.run(partial(sessions.end, peer.row.pk, actor=peer.actor))
        await peer.response.done()
    else:
        await _serve_get(peer, peer.row)


async def _serve_get(peer: HTTPPeer, session: Session) -> None:
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


async def _find_session(peer: HTTPPeer) -> Rejection | None:
    """Find the session that the request names, if any.

    Return a rejection if it cannot be served.
    """
    session_id = _read_session_id(peer.headers, peer)
    if session_id is None or isinstance(session_id, Rejection):
        return session_id
    peer.row = await peer.server.rows.run(sessions.find, session_id, peer.principal)
    return session_not_found(peer.request_id) if peer.row is None else None


def _read_session_id(headers: Headers, peer: HTTPPeer) -> UUID | Rejection | None:
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
    peer: HTTPPeer, post: LegacyPost, revision: Revision, request: RequestMessage, member: EndpointResponse | None
) -> None:
    handshake, session = Handshake(), peer.row
    if session is not None:
        handshake = Handshake(session.client_capabilities, session.client_info, session.log_level or None)
    route = to_route(request, revision, handshake, post.accept, Limits(max_depth=settings.MAX_DEPTH))
    if isinstance(route, Rejection):
        await (member or peer.response).reject(route)
    else:
        await dispatch(peer.exchange(route, revision, member), methods.HANDLERS)


async def _handle_notification(peer: HTTPPeer, notification: Notification) -> None:
    """Cancel a request of the session. Other notifications have no effect.

    Without a session, an id identifies no request. If the call has ended or does not exist, the
    attempt is audited and the client gets no error.
    """
    session = peer.row
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


async def _audit_attempts(peer: HTTPPeer, post: LegacyPost) -> None:
    """Audit cancellations in a session that does not exist or belongs to another caller.

    The response is the same for both.
    """
    session_id = _read_session_id(peer.headers, peer)
    if not isinstance(session_id, UUID):
        return
    for message in post.messages:
        if isinstance(message, Notification) and message.method == "notifications/cancelled":
            cancelled = read_cancelled(message)
            if cancelled is not None:
                await _cancel(peer, session_id, cancelled)


async def _cancel(peer: HTTPPeer, session_id: UUID, cancelled: Cancelled) -> None:
    request_id = await peer.server.rows.run(sessions.find_call_id, session_id, cancelled.request_id)
    target = request_id or f"id {clip(json.dumps(cancelled.request_id))}"
    cancellation = CancellationRequest(target, Cause.CLIENT, peer.actor, cancelled.reason, peer.principal)
    await peer.server.cancellations.cancel(cancellation)
