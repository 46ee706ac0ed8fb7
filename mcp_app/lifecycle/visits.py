"""Pages of the site that a request sends its user to: whose they are, and what was done there.

An address names a request and a question and proves nothing: the visitor must be logged in as the user who called.
Refuses requests without a user, and those that do not ask for the page any more.
Source: 2026-07-28 client/elicitation "Safe URL Handling", "Phishing".
"""

from typing import Any
from uuid import UUID

from django.core import signing

from mcp_app.lifecycle import events
from mcp_app.lifecycle.events import Event
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.transitions import move
from mcp_app.models import Request
from mcp_app.states import EventKind, Status

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


@transactional
def finish(request_id: UUID, key: str, value: Any) -> bool:
    """Keep what the user did on the page, for the tool; False when the request does not ask for it any more."""
    row = Request.objects.select_for_update().filter(pk=request_id, status=Status.INPUT_REQUIRED).first()
    if row is None or key not in row.questions:
        return False
    visited = {**row.visited, key: events.storable(value)}
    return move(row, Status.INPUT_REQUIRED, [Event(EventKind.INPUT, {"visited": {key: value}})], visited=visited)
