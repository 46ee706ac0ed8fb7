"""Pages of the site that a request sends its user to: whose they are, and what was done there.

An address names a request and a question and proves nothing: the visitor must be logged in as the user who called. What
was done is the answer as well where the client answers once for all, in older revisions. Refuses requests without a
user, and those that do not ask for the page any more.
Source: 2026-07-28 client/elicitation "Safe URL Handling", "Phishing".
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

from django.core import signing

from mcp_app import databases
from mcp_app.lifecycle import events, input_rounds, originals, publishing
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.redaction import Kind, Redacted
from mcp_app.lifecycle.transitions import move
from mcp_app.models import Request
from mcp_app.protocol.revisions import LEGACY
from mcp_app.states import EventKind, Status

logger = logging.getLogger(__name__)

_signer = signing.Signer(salt="mcp_app.visits")


def address(request_id: UUID, key: str) -> str:
    """What a page's URL carries: the same for the same question, and of nobody's data."""
    return _signer.sign_object([request_id.hex, key])


def find(signed: str, user_id: str) -> tuple[Request, str] | None:
    """The request of this user, and the key of its question, that asks for the page now; None for anything else."""
    try:
        request_id, key = _signer.unsign_object(signed)
    except (signing.BadSignature, ValueError):
        return None
    row = Request.objects.filter(pk=UUID(request_id), status=Status.INPUT_REQUIRED).first()
    if row is None or key not in row.questions or not user_id or row.user_id != user_id:
        return None
    return row, key


def finish(request_id: UUID, key: str, value: Any) -> bool:
    """Keep what the user did on the page, for the tool; False when the request does not ask for it any more."""
    return _finish(request_id, key, originals.redact_for(request_id, Kind.VISIT, {key: events.storable(value)}))


@transactional
def _finish(request_id: UUID, key: str, done: Redacted) -> bool:
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.INPUT_REQUIRED).first()
    if row is None or key not in row.questions:
        return False
    told = [Event(EventKind.INPUT, {"visited": done.kept})]
    columns = originals.columns(row, visited=originals.of(row, "visited") | done)
    if not move(row, Status.INPUT_REQUIRED, told, **columns):
        return False
    row.refresh_from_db()
    if row.protocol_version in LEGACY:
        _answer(row, key)
    return True


def sends_to_page(request_id: UUID, key: str, question: Mapping[str, Any]) -> bool:
    """Whether a request's question, an InputRequest, sends its user to a page of this site."""
    return str(question["params"].get("url", "")).endswith(quote_plus(address(request_id, key)))


def _answer(row: Request, key: str) -> None:
    accepted = {key: {"action": "accept"}}
    left = [other for other in row.questions if other != key]
    answered = input_rounds.take(row, Redacted(accepted, accepted), left, input_rounds.NOTHING)
    if answered is not None and answered.status == Status.QUEUED:
        databases.on_commit(partial(_publish, answered))


def _publish(row: Request) -> None:
    try:
        publishing.send(row.pk, row.queue)
    except Exception as error:
        logger.error("the answered request %s waits for the broker: %s", row.pk, error)
