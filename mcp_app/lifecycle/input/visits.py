"""Pages of the site to which a call sends its user, and their results.

A page's URL has a signed token that identifies the request and the question. The token gives no
access: the visitor must be logged in as the user who made the call, and the request must still ask
for the page.

In legacy revisions, a client's answer only means that the user agrees to open the page. So the page
answers the question when it is finished. In later revisions the client answers, and a page can be
finished again until then; the last result counts. Source: 2026-07-28 client/elicitation "Safe URL
Handling", "Phishing".
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

from django.core import signing

from mcp_app import databases
from mcp_app.lifecycle import publishing, redaction
from mcp_app.lifecycle.database.json_values import storable
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.redaction import PayloadKind, Redacted
from mcp_app.lifecycle.requests.events import Event
from mcp_app.lifecycle.requests.transitions import move
from mcp_app.models import Request
from mcp_app.protocol.revisions import LEGACY
from mcp_app.states import EventKind, Status

logger = logging.getLogger(__name__)

_signer = signing.Signer(salt="mcp_app.visits")


def token(request_id: UUID, key: str) -> str:
    """Return the token in the URL of a question's page. It never changes, and contains no user data."""
    return _signer.sign_object([request_id.hex, key])


def find(signed: str, user_id: str) -> tuple[Request, str] | None:
    """Return the request and the key of the question to which a token belongs.

    Return `None` if the token is invalid, the request is another user's, or it does not ask for the
    page now.
    """
    try:
        request_id, key = _signer.unsign_object(signed)
    except (signing.BadSignature, ValueError):
        return None
    row = Request.objects.filter(pk=UUID(request_id), status=Status.INPUT_REQUIRED).first()
    if row is None or key not in row.questions or not user_id or row.user_id != user_id:
        return None
    return row, key


def finish(request_id: UUID, key: str, value: Any) -> bool:
    """Store the page's result for the tool. Return false if the question is no longer open.

    For a legacy client this also answers the question. The caller has checked access with `find`.
    """
    return _finish(request_id, key, redaction.redact_for(request_id, PayloadKind.VISIT, {key: storable(value)}))


@transactional
def _finish(request_id: UUID, key: str, result: Redacted) -> bool:
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.INPUT_REQUIRED).first()
    if row is None or key not in row.questions:
        return False
    events = [Event(EventKind.INPUT, {"visited": result.kept})]
    columns = redaction.columns(row, visited=redaction.of(row, "visited") | result)
    if not move(row, Status.INPUT_REQUIRED, events, **columns):
        return False
    row.refresh_from_db()
    if row.protocol_version in LEGACY:
        accepted = {key: {"action": "accept"}}
        remaining = [other for other in row.questions if other != key]
        answered = input_rounds.take(row, Redacted(accepted, accepted), remaining, input_rounds.NOTHING)
        if answered is not None and answered.status == Status.QUEUED:
            databases.on_commit(partial(_publish, answered))
    return True


def sends_to_page(request_id: UUID, key: str, question: Mapping[str, Any]) -> bool:
    """Return whether a question, an InputRequest, sends the user to a page of this site: its URL has the token."""
    return str(question["params"].get("url", "")).endswith(quote_plus(token(request_id, key)))


def _publish(row: Request) -> None:
    try:
        publishing.send(row.pk, row.queue)
    except Exception as error:
        logger.error(
            "the answered request %s could not be sent to the broker; supervision sends it again: %s", row.pk, error
        )
