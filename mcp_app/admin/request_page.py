"""One request's page: what is shown of it, and to whom.

Refuses payload to whoever lacks the permission for it: arguments, results, errors, tracebacks, messages and log lines
are what the tool was given and what it said.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from mcp_app.admin.formatting import progress_bar
from mcp_app.admin.request_columns import isolated, status_badge, text
from mcp_app.lifecycle.inert import inert
from mcp_app.models import Request, Tool
from mcp_app.states import OPEN, CancelPolicy, Status
from mcp_app.telling.cancellation_story import story
from mcp_app.telling.facts import NAME_CHARS, facts, payloads
from mcp_app.telling.formatting import NOTHING, between, duration, excerpt, json_excerpt, moment
from mcp_app.telling.timeline import timeline

STARTED = 100
MAX_DIGITS = 18
"""Of an event's number: what a column holds."""


def shown(request: HttpRequest, site: AdminSite, row: Request, *, payload: bool) -> dict[str, Any]:
    """The template's view of a request as it is now. `payload`: the reader may see what it was given and returned."""
    tellings, more_tellings = story(row.pk)
    before = request.GET.get("before", "")[:MAX_DIGITS]
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
        "payloads": [(each.title, json_excerpt(each.value)) for each in payloads(row)] if payload else [],
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
    if row.parent is not None:
        yield "Started by", _link(site, row.parent, str(row.parent))
    for fact in facts(row):
        yield fact.name, isolated(fact.words) if fact.foreign else fact.words


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
