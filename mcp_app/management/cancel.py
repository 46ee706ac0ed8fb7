"""`mcp cancel`: an administrator's cancellation from a terminal, and what came of it in words."""

import getpass
import os
import time
from uuid import UUID

from mcp_app.lifecycle import cancellation
from mcp_app.lifecycle.audit import Actor
from mcp_app.models import Request
from mcp_app.states import OPEN, Cause, Outcome, Stage, Status

POLL_SECONDS = 0.05

_WORDS = {
    Outcome.ACCEPTED: "cancel requested",
    Outcome.DUPLICATE: "cancel had already been requested",
    Outcome.TOO_LATE: "had already finished",
    Outcome.UNKNOWN: "unknown request",
}
IN_FORCE = frozenset({Outcome.ACCEPTED, Outcome.DUPLICATE})
"""The outcomes after which the request is cancelled or about to be."""


def cancel(request_id: str, reason: str) -> Outcome:
    """Ask for the request to be cancelled, in the name of the operating system's user."""
    return cancellation.cancel(request_id, cause=Cause.ADMIN, actor=Actor(f"command line: {_user()}"), reason=reason)


def describe(outcome: Outcome) -> str:
    """What became of the asking. DENIED cannot be: the command line asks for everybody's requests."""
    return _WORDS[outcome]


def await_end(request_id: UUID, seconds: float) -> Request | None:
    """The request once it has ended; None if it is still open after `seconds`."""
    deadline = time.monotonic() + seconds
    while (row := Request.objects.get(pk=request_id)).status in OPEN:
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return row


def describe_end(row: Request) -> str:
    """Status, stage and latency of a request that has ended."""
    words = f"{Status(row.status).label}, stage {Stage(row.stage).label}"
    if row.cancel_requested_at is not None and row.finished_at is not None:
        words += f", {(row.finished_at - row.cancel_requested_at).total_seconds() * 1000:.0f} ms after the cancel"
    return words


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return f"uid {os.getuid()}"
