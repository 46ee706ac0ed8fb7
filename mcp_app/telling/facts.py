"""A request at a glance: its status in words, what is known of it besides, and what it was given and returned.

Reads the columns that people may see: what the site's redaction left.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.translation import gettext as _

from mcp_app.lifecycle import clock
from mcp_app.lifecycle.inert import inert
from mcp_app.lifecycle.queue_places import places
from mcp_app.lifecycle.vital_signs import of_processes
from mcp_app.models import Request
from mcp_app.states import OPEN, CancelPolicy, Stage, Status
from mcp_app.telling.formatting import NOTHING, between, duration, moment
from mcp_app.telling.whereabouts import last_word, place

NAME_CHARS = 255
TEXT_CHARS = 160


class Standing(NamedTuple):
    """The status of a request in words. `stopping`: whether it is to stop and has not; `remark`: why that may last."""

    label: str
    stopping: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known by a name. `foreign`: the words came from outside; they are inert all the same."""

    name: str
    words: str
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Payload:
    """A part of what the tool was given or gave back: a JSON value."""

    title: str
    value: Any


def standing(row: Request) -> Standing:
    """The status; of a request that is to stop and still runs, both, and whether it can be stopped where it runs."""
    status = Status(row.status)
    if status not in OPEN or row.cancel_requested_at is None:
        return Standing(str(status.label))
    told = _("%(status)s, cancel requested") % {"status": status.label}
    if row.unstoppable:
        return Standing(told, True, _("unstoppable here"))
    if row.cancel_policy == CancelPolicy.COOPERATIVE:
        return Standing(told, True, str(CancelPolicy.COOPERATIVE.label))
    return Standing(told, True)


def facts(row: Request) -> Iterator[Fact]:
    """When, who, how it may be stopped, where; its tool, status and parent left out."""
    now = clock.now()
    yield Fact("Submitted", moment(row.submitted_at, precise=True))
    yield Fact("Waited for a worker", between(row.queued_at, row.claimed_at or row.finished_at or now))
    # What was closed while it asked its user ran until it asked, and nobody noted when that was.
    if row.claimed_at is not None and row.status != Status.INPUT_REQUIRED and not row.questions:
        yield Fact("Ran", between(row.claimed_at, row.finished_at or now))
    if row.finished_at is not None:
        yield Fact("Finished", moment(row.finished_at, precise=True))
        yield Fact("Handed to its client", moment(row.delivered_at, precise=True))
    else:
        yield Fact("Deadline", moment(row.deadline_at))
    yield from _who(row)
    yield Fact("Cancel policy", _policy(row))
    yield Fact("Time limit", duration(row.time_limit))
    if row.caller_limit is not None:
        yield Fact("Its caller's, with the wait for a worker", duration(row.caller_limit))
    waits = places([row.pk]).get(row.pk) if row.status == Status.QUEUED else None
    yield _foreign("Queue", row.queue if waits is None else place(waits))
    if row.redacted:
        yield _foreign("Redacted", ", ".join(row.redacted))
    yield Fact("Times are in", timezone.get_current_timezone_name())
    yield from _where(row)


def payloads(row: Request) -> Iterator[Payload]:
    """What it was given, asked, was answered and returned; what there is none of is left out."""
    yield Payload("Arguments", row.arguments)
    if row.questions:
        yield Payload("Asked of its client", row.questions)
    if row.answers:
        yield Payload("Answered", row.answers)
    if row.visited:
        yield Payload("Done on its pages", row.visited)
    if row.kept:
        yield Payload("Done once", row.kept)
    if row.result is not None:
        yield Payload("Result", row.result)
    if row.partial_result is not None:
        yield Payload("Partial result", row.partial_result)
    if row.error is not None:
        yield Payload("Error", row.error)


def _who(row: Request) -> Iterator[Fact]:
    yield _foreign("Endpoint", row.endpoint)
    yield _foreign("Caller", row.principal_label, NAME_CHARS)
    if identity := [part for part in (row.issuer, row.subject, row.client_id) if part]:
        yield _foreign("Issuer, subject, client id", ", ".join(identity), 3 * NAME_CHARS)
    if row.user_id:
        yield _foreign("User id", row.user_id)
    info = row.client_info if isinstance(row.client_info, dict) else {}
    named = " ".join(inert(info[key], NAME_CHARS) for key in ("name", "version") if info.get(key))
    yield _foreign("Client (as it says)", named, 3 * NAME_CHARS)
    yield _foreign("Address", row.remote_address)
    if row.parent is None:
        yield _foreign("Its id for the request", json.dumps(row.jsonrpc_id), NAME_CHARS)
    yield _foreign("Protocol", row.protocol_version)


def _policy(row: Request) -> str:
    told = str(CancelPolicy(row.cancel_policy).label)
    if row.cancel_policy != CancelPolicy.COOPERATIVE:
        told = f"interrupt after {duration(row.cooperative_grace)}"
    if row.cancel_policy == CancelPolicy.KILL:
        told += f", kill after {duration(row.hard_grace)}"
    return f"{told}; reached: {Stage(row.stage).label}" if row.cancel_requested_at else told


def _where(row: Request) -> Iterator[Fact]:
    known = of_processes([boot_id for boot_id in (row.worker, row.server) if boot_id])
    for label, boot_id in (("Worker", row.worker), ("Server", row.server)):
        if boot_id is not None:
            signs = known.get(boot_id)
            host = f"{signs.hostname}, process {signs.pid}, " if signs else ""
            word = f"{last_word(signs)}, " if row.status in OPEN else ""
            yield _foreign(label, f"{host}{word}boot id {boot_id}")
    if row.worker_pid is not None:
        yield Fact("Tool's process", str(row.worker_pid))


def _foreign(name: str, value: object, limit: int = TEXT_CHARS) -> Fact:
    return Fact(name, inert(value, limit) or NOTHING, foreign=True)
