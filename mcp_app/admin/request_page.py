"""One request's page: what is shown of it, and to whom.

Refuses payload to whoever lacks the permission for it: arguments, results, errors, tracebacks, messages and log lines
are what the tool was given and what it said.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from mcp_app.admin.cancellation_story import story
from mcp_app.admin.formatting import (
    NOTHING,
    Excerpt,
    between,
    duration,
    excerpt,
    json_excerpt,
    moment,
    progress_bar,
)
from mcp_app.admin.request_columns import status_badge, text
from mcp_app.admin.timeline import timeline
from mcp_app.lifecycle import clock
from mcp_app.lifecycle.inert import inert
from mcp_app.models import Process, Request, Tool
from mcp_app.states import OPEN, CancelPolicy, Stage, Status

NAME_CHARS = 255
STARTED = 100


@dataclass(frozen=True, slots=True)
class Payload:
    """A part of what the tool was given or gave back."""

    title: str
    content: Excerpt


def shown(request: HttpRequest, site: AdminSite, row: Request, *, payload: bool) -> dict[str, Any]:
    """The template's view of a request as it is now. `payload`: the reader may see what it was given and returned."""
    tellings, more_tellings = story(row.pk)
    before = request.GET.get("before", "")
    return {
        "row": row,
        "open": row.status in OPEN,
        "cancellable": row.status in OPEN and row.cancel_requested_at is None,
        "badge": status_badge(row),
        "tool": _tool(request, site, row),
        "facts": list(_facts(site, row)),
        "progress": progress_bar(row.progress, row.progress_total),
        "message": inert(row.progress_message),
        "payload": payload,
        "payloads": list(_payloads(row)) if payload else [],
        "celery": _celery(row, payload=payload) if row.status != Status.QUEUED else None,
        "tellings": tellings,
        "more_tellings": more_tellings,
        "timeline": timeline(row.pk, before=int(before) if before.isdecimal() else None, payload=payload),
        "newest": not before.isdecimal(),
        **_family(site, row),
    }


def what_a_stop_means(row: Request) -> str:
    """How far a cancellation of this request would go, in a sentence."""
    if row.status != Status.RUNNING:
        return "Nothing of it runs, so it is closed at once, unless a worker has just begun it."
    told = "The tool is told at once"
    if row.children:
        told = "What it started is cancelled with it. The tool is told at once"
    if row.cancel_policy == CancelPolicy.COOPERATIVE:
        return f"{told} and never cut: it stops where it looks for a cancellation, or runs to its end."
    told += f", interrupted after {duration(row.cooperative_grace)}"
    if row.cancel_policy == CancelPolicy.INTERRUPT:
        return f"{told}, and never killed."
    return f"{told}, and killed after {duration(row.hard_grace)}."


def _family(site: AdminSite, row: Request) -> dict[str, Any]:
    """What started it and what it started, as links."""
    if not row.children:
        return {"started": [], "more_started": False}
    columns = ("tool", "status", "cancel_requested_at", "cancel_policy", "submitted_at", "finished_at")
    found = Request.objects.filter(parent=row.pk).only(*columns).order_by("submitted_at")[: STARTED + 1]
    started = [
        {
            "badge": status_badge(each),
            "link": _link(site, each.pk, text(each.tool, NAME_CHARS)),
            "took": between(each.submitted_at, each.finished_at or timezone.now()),
        }
        for each in found[:STARTED]
    ]
    return {"started": started, "more_started": len(found) > STARTED}


def _link(site: AdminSite, request_id: UUID, words: str) -> str:
    url = reverse("admin:mcp_app_request_change", args=(request_id,), current_app=site.name)
    return format_html('<a href="{}">{}</a>', url, words)


def _tool(request: HttpRequest, site: AdminSite, row: Request) -> str:
    may_see = request.user.has_perm("mcp_app.view_tool") or request.user.has_perm("mcp_app.change_tool")
    if not may_see or not site.is_registered(Tool):
        return text(row.tool, NAME_CHARS)
    url = reverse("admin:mcp_app_tool_change", args=(quote(row.tool),), current_app=site.name)
    return format_html('<a href="{}">{}</a>', url, text(row.tool, NAME_CHARS))


def _facts(site: AdminSite, row: Request) -> Iterator[tuple[str, str]]:
    now = clock.now()
    if row.parent is not None:
        yield "Started by", _link(site, row.parent, str(row.parent))
    yield "Submitted", moment(row.submitted_at, precise=True)
    yield "Waited for a worker", between(row.queued_at, row.claimed_at or row.finished_at or now)
    if row.claimed_at is not None and row.status != Status.INPUT_REQUIRED:
        yield "Ran", between(row.claimed_at, row.finished_at or now)
    if row.finished_at is not None:
        yield "Finished", moment(row.finished_at, precise=True)
        yield "Handed to its client", moment(row.delivered_at, precise=True)
    else:
        yield "Deadline", moment(row.deadline_at)
    yield from _who(row)
    yield "Cancel policy", _policy(row)
    yield "Time limit", duration(row.time_limit)
    if row.caller_limit is not None:
        yield "Its caller's, with the wait for a worker", duration(row.caller_limit)
    yield "Queue", text(row.queue)
    if row.redacted:
        yield "Redacted", text(", ".join(row.redacted))
    yield "Times are in", timezone.get_current_timezone_name()
    yield from _where(row)


def _who(row: Request) -> Iterator[tuple[str, str]]:
    yield "Endpoint", text(row.endpoint)
    yield "Caller", text(row.principal_label, NAME_CHARS)
    if identity := [part for part in (row.issuer, row.subject, row.client_id) if part]:
        yield "Issuer, subject, client id", text(", ".join(identity), 3 * NAME_CHARS)
    if row.user_id:
        yield "User id", text(row.user_id)
    info = row.client_info if isinstance(row.client_info, dict) else {}
    named = " ".join(inert(info[key], NAME_CHARS) for key in ("name", "version") if info.get(key))
    yield "Client (as it says)", text(named, 3 * NAME_CHARS)
    yield "Address", text(row.remote_address)
    if row.parent is None:
        yield "Its id for the request", text(json.dumps(row.jsonrpc_id), NAME_CHARS)
    yield "Protocol", text(row.protocol_version)


def _policy(row: Request) -> str:
    told = str(CancelPolicy(row.cancel_policy).label)
    if row.cancel_policy != CancelPolicy.COOPERATIVE:
        told = f"interrupt after {duration(row.cooperative_grace)}"
    if row.cancel_policy == CancelPolicy.KILL:
        told += f", kill after {duration(row.hard_grace)}"
    return f"{told}; reached: {Stage(row.stage).label}" if row.cancel_requested_at else told


def _where(row: Request) -> Iterator[tuple[str, str]]:
    known = Process.objects.in_bulk([boot_id for boot_id in (row.worker, row.server) if boot_id])
    for label, boot_id in (("Worker", row.worker), ("Server", row.server)):
        if boot_id is not None:
            process = known.get(boot_id)
            host = f"{process.hostname}, process {process.pid}, " if process else ""
            yield label, text(f"{host}boot id {boot_id}")
    if row.worker_pid is not None:
        yield "Tool's process", str(row.worker_pid)


def _payloads(row: Request) -> Iterator[Payload]:
    yield Payload("Arguments", json_excerpt(row.arguments))
    if row.questions:
        yield Payload("Asked of its client", json_excerpt(row.questions))
    if row.answers:
        yield Payload("Answered", json_excerpt(row.answers))
    if row.visited:
        yield Payload("Done on its pages", json_excerpt(row.visited))
    if row.kept:
        yield Payload("Done once", json_excerpt(row.kept))
    if row.result is not None:
        yield Payload("Result", json_excerpt(row.result))
    if row.partial_result is not None:
        yield Payload("Partial result", json_excerpt(row.partial_result))
    if row.error is not None:
        yield Payload("Error", json_excerpt(row.error))


def _celery(row: Request, *, payload: bool) -> dict[str, Any] | None:
    stored: Any = row.celery_result
    if stored is None:
        return None
    traceback = stored.traceback or ""
    return {
        "state": inert(stored.status, NAME_CHARS),
        "worker": inert(stored.worker or NOTHING, NAME_CHARS),
        "done": moment(stored.date_done, precise=True),
        "traceback": excerpt(traceback) if traceback and payload else None,
        "withheld": bool(traceback) and not payload,
    }
