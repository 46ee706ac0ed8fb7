"""An audit row told as sentences: who asked for what, when and why, and what became of it.

Texts of clients and tools are inert; whoever renders them escapes them.
"""

from datetime import datetime

from django.utils import timezone

from mcp_app.admin.formatting import duration, inert
from mcp_app.models import Cancellation
from mcp_app.states import Cause, Outcome, Stage, Status

_ASKED = {
    Cause.DISCONNECT: "The client's connection was closed, which cancels its request.",
    Cause.CLIENT: "The client asked for the cancellation.",
    Cause.ADMIN: "An administrator asked for the cancellation.",
    Cause.DEADLINE: "The request had not ended by its deadline.",
    Cause.SHUTDOWN: "The server process that answered the client was shut down.",
    Cause.ABANDONED: "Nobody came back for the request's result.",
    Cause.LOST_SERVER: "The server process that answered the client was lost, and the client with it.",
}
_BECAME = {
    Outcome.ACCEPTED: "The cancellation was accepted.",
    Outcome.DUPLICATE: "Its cancellation had been asked for before; the first attempt counts.",
    Outcome.TOO_LATE: "It was too late: the request had reached its end, or reached it before the stop landed.",
    Outcome.UNKNOWN: "No request with this id was known, so nothing was done.",
    Outcome.DENIED: "The request belongs to somebody else, so nothing was done; the asker was told that there is none.",
}
_LADDER = {
    Stage.NONE: "",
    Stage.COOPERATIVE: "The tool was told, and ended by itself.",
    Stage.INTERRUPT: "An exception was raised inside the tool.",
    Stage.KILL: "The tool's process was killed, with every process that it started.",
}


def story(row: Cancellation) -> list[str]:
    """The row in sentences, in the order of what happened."""
    sentences = [_asked(row), _ASKED[Cause(row.cause)]]
    if row.reason:
        sentences.append(f"The reason given: “{inert(row.reason)}”.")
    sentences.append(_BECAME[Outcome(row.outcome)])
    if row.outcome in (Outcome.ACCEPTED, Outcome.TOO_LATE):
        sentences.extend(_ended(row))
    return [sentence for sentence in sentences if sentence]


def target(row: Cancellation) -> str:
    """What was to be cancelled: a request, or an id that nobody knew."""
    if row.request_id is not None:
        return str(row.request_id)
    return inert(row.requested_id)


def moment(value: datetime) -> str:
    """A time to the second, in the site's time zone, which it names."""
    return f"{timezone.localtime(value):%Y-%m-%d %H:%M:%S %Z}"


def _asked(row: Cancellation) -> str:
    what = f"request {target(row)}" if row.request_id else f"“{target(row)}”, an id that nobody knew"
    tool = f", a call of {inert(row.tool)}" if row.tool else ""
    caller = f" by {inert(row.principal_label)}" if row.tool and row.principal_label else ""
    address = f" ({inert(row.actor_address)})" if row.actor_address else ""
    return f"{moment(row.requested_at)}: {inert(row.actor)}{address} set out to cancel {what}{tool}{caller}."


def _ended(row: Cancellation) -> list[str]:
    before = f"The request was {Status(row.status_before).label}." if row.status_before else ""
    if row.settled_at is None:
        return [before, "It has not been settled: the work has not been proved stopped yet."]
    if row.status_before == Status.QUEUED and row.stage == Stage.NONE:
        return [before, "It was closed before it ran; nothing had to be stopped."]
    latency = "" if row.latency_ms is None else f", {duration(row.latency_ms / 1000)} after it was asked for"
    after = f"The request ended {Status(row.status_after).label}{latency}." if row.status_after else ""
    return [before, _LADDER[Stage(row.stage)], after]
