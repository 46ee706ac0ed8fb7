"""One request in words: its status, facts such as its caller and times, and its payloads.

Reads the redacted columns, because administrators may see only those.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.contrib.humanize.templatetags.humanize import intcomma, ordinal
from django.utils import timezone
from django.utils.translation import gettext as _

from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.liveness.queues import MAX_COUNTED, Place, places
from mcp_app.lifecycle.liveness.vital_signs import ProcessSigns, of_processes
from mcp_app.models import Request
from mcp_app.presentation.formatting import NOTHING, between, duration, moment
from mcp_app.safe_text import safe_text
from mcp_app.states import OPEN, CancelPolicy, Stage, Status

NAME_CHARS = 255
TEXT_CHARS = 160
QUEUE_CHARS = 80


class StatusInWords(NamedTuple):
    """The status of a request in words.

    `stopping` is true from the request to cancel until the end. `remark` explains why stopping may
    take long.
    """

    label: str
    stopping: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and a value. `foreign` values come from outside; they are safe to show, too."""

    name: str
    words: str
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Payload:
    """A JSON value that the tool received or returned, with a title."""

    title: str
    value: Any


def describe_status(row: Request) -> StatusInWords:
    """Return the status in words, with a remark if a requested cancellation may not succeed."""
    status = Status(row.status)
    if status not in OPEN or row.cancel_requested_at is None:
        return StatusInWords(str(status.label))
    words = _("%(status)s, cancel requested") % {"status": status.label}
    if row.unstoppable:
        return StatusInWords(words, True, _("unstoppable here"))
    if row.cancel_policy == CancelPolicy.COOPERATIVE:
        return StatusInWords(words, True, str(CancelPolicy.COOPERATIVE.label))
    return StatusInWords(words, True)


def facts(row: Request) -> Iterator[Fact]:
    """Yield the facts of a request, except its tool, status and parent."""
    now = clock.now()
    yield Fact("Submitted", moment(row.submitted_at, precise=True))
    yield Fact("Waited for a worker", between(row.queued_at, row.claimed_at or row.finished_at or now))
    # If it was closed while it asked its client, the end of its run is unknown.
    if row.claimed_at is not None and row.status != Status.INPUT_REQUIRED and not row.questions:
        yield Fact("Ran", between(row.claimed_at, row.finished_at or now))
    if row.finished_at is not None:
        yield Fact("Finished", moment(row.finished_at, precise=True))
        yield Fact("Handed to its client", moment(row.delivered_at, precise=True))
    else:
        yield Fact("Deadline", moment(row.deadline_at))
    yield from _caller_facts(row)
    yield Fact("Cancel policy", _describe_policy(row))
    yield Fact("Time limit", duration(row.time_limit))
    if row.caller_limit is not None:
        yield Fact("Its caller's, with the wait for a worker", duration(row.caller_limit))
    waits = places([row.pk]).get(row.pk) if row.status == Status.QUEUED else None
    yield _foreign_fact("Queue", row.queue if waits is None else describe_place(waits))
    if row.redacted:
        yield _foreign_fact("Redacted", ", ".join(row.redacted))
    yield Fact("Times are in", timezone.get_current_timezone_name())
    yield from _process_facts(row)


def payloads(row: Request) -> Iterator[Payload]:
    """Yield the payloads that the request has: arguments, questions, answers, result and error."""
    yield Payload("Arguments", row.arguments)
    if row.questions:
        yield Payload("Questions to its client", row.questions)
    if row.answers:
        yield Payload("Answered", row.answers)
    if row.visited:
        yield Payload("Results of the pages it sent its user to", row.visited)
    if row.kept:
        yield Payload("Done once", row.kept)
    if row.result is not None:
        yield Payload("Result", row.result)
    if row.partial_result is not None:
        yield Payload("Partial result", row.partial_result)
    if row.error is not None:
        yield Payload("Error", {name: value for name, value in row.error.items() if name != "traceback"})


def traceback(row: Request) -> str:
    """Return the traceback, which is kept if the tool failed with `DEBUG`. It is payload, too."""
    return str((row.error or {}).get("traceback", ""))


def _caller_facts(row: Request) -> Iterator[Fact]:
    yield _foreign_fact("Endpoint", row.endpoint)
    yield _foreign_fact("Caller", row.principal_label, NAME_CHARS)
    if identity := [part for part in (row.issuer, row.subject, row.client_id) if part]:
        yield _foreign_fact("Issuer, subject, client id", ", ".join(identity), 3 * NAME_CHARS)
    if row.user_id:
        yield _foreign_fact("User id", row.user_id)
    info = row.client_info if isinstance(row.client_info, dict) else {}
    named = " ".join(safe_text(info[key], NAME_CHARS) for key in ("name", "version") if info.get(key))
    yield _foreign_fact("Client (unverified)", named, 3 * NAME_CHARS)
    yield _foreign_fact("Address", row.remote_address)
    if row.parent is None:
        yield _foreign_fact("JSON-RPC id", json.dumps(row.jsonrpc_id), NAME_CHARS)
    yield _foreign_fact("Protocol", row.protocol_version)


def _describe_policy(row: Request) -> str:
    words = str(CancelPolicy(row.cancel_policy).label)
    if row.cancel_policy != CancelPolicy.COOPERATIVE:
        words = f"interrupt after {duration(row.cooperative_grace)}"
    if row.cancel_policy == CancelPolicy.KILL:
        words += f", kill after {duration(row.hard_grace)}"
    return f"{words}; reached: {Stage(row.stage).label}" if row.cancel_requested_at else words


def _process_facts(row: Request) -> Iterator[Fact]:
    known = of_processes([boot_id for boot_id in (row.worker, row.server) if boot_id])
    for label, boot_id in (("Worker", row.worker), ("Server", row.server)):
        if boot_id is not None:
            signs = known.get(boot_id)
            host = f"{signs.hostname}, process {signs.pid}, " if signs else ""
            word = f"{describe_heartbeat(signs)}, " if row.status in OPEN else ""
            yield _foreign_fact(label, f"{host}{word}boot id {boot_id}")
    if row.worker_pid is not None:
        yield Fact("Tool's process", str(row.worker_pid))


def _foreign_fact(name: str, value: object, limit: int = TEXT_CHARS) -> Fact:
    return Fact(name, safe_text(value, limit) or NOTHING, foreign=True)


def describe_place(found: Place) -> str:
    """Return a place such as `3rd of 7 in mcp`. Only `MAX_COUNTED` requests of a queue are counted."""
    queue, many = safe_text(found.queue, QUEUE_CHARS), intcomma(MAX_COUNTED)
    if found.ahead >= MAX_COUNTED:
        return f"more than {many} before it in {queue}"
    of = f"more than {many}" if found.waiting >= MAX_COUNTED else intcomma(found.waiting)
    return f"{ordinal(found.ahead + 1)} of {of} in {queue}"


def describe_heartbeat(signs: ProcessSigns | None) -> str:
    """Describe the last heartbeat of a process. `None` stands for a process without a row."""
    if signs is None:
        return "gone"
    if signs.has_stopped:
        return "stopped"
    if signs.is_silent:
        return f"silent for {duration(max(0.0, signs.seconds))}"
    return f"heard {max(0.0, signs.seconds):.1f} s ago"
