"""Build the page of one request.

Arguments, results, errors, tracebacks, messages and log lines are payload. Only users with the permission see them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from mcp_app.admin.lists.formatting import progress_bar
from mcp_app.admin.requests.request_columns import isolated, status_badge, text
from mcp_app.models import Request, Tool
from mcp_app.presentation.cancellation_story import describe_attempts
from mcp_app.presentation.facts import NAME_CHARS, facts, payloads, traceback
from mcp_app.presentation.formatting import NOTHING, between, duration, excerpt, json_excerpt, moment
from mcp_app.presentation.timeline import timeline
from mcp_app.safe_text import safe_text
from mcp_app.states import OPEN, CancelPolicy, Status

STARTED = 100
MAX_DIGITS = 18
"""The most digits of an event's number."""


def shown(request: HttpRequest, site: AdminSite, row: Request, *, payload: bool) -> dict[str, Any]:
    """Return the template context for a request as it is now. `payload` is whether the user may see its payload."""
    tellings, more_tellings = describe_attempts(row.pk)
    before = request.GET.get("before", "")[:MAX_DIGITS]
    return {
        "row": row,
        "open": row.status in OPEN,
        "cancellable": row.status in OPEN and row.cancel_requested_at is None,
        "badge": status_badge(row),
        "tool": _tool(request, site, row),
        "facts": list(_facts(site, row)),
        "progress": progress_bar(row.progress, row.progress_total),
        "message": safe_text(row.progress_message),
        "payload": payload,
        "payloads": [(each.title, json_excerpt(each.value)) for each in payloads(row)] if payload else [],
        "traceback": excerpt(traceback(row)) if payload and traceback(row) else None,
        "has_celery_results": apps.is_installed("django_celery_results"),
        "celery": _celery(row, payload=payload) if row.status != Status.QUEUED else None,
        "tellings": tellings,
        "more_tellings": more_tellings,
        "timeline": timeline(row.pk, before=int(before) if before.isdecimal() else None, payload=payload),
        "newest": not before.isdecimal(),
        **_family(site, row),
    }


def what_a_stop_means(row: Request) -> str:
    """Describe in a sentence how far a cancellation of this request would go."""
    if row.status != Status.RUNNING:
        return "No worker is running it, so it is cancelled at once, unless a worker has just claimed it."
    plan = "The tool is notified at once"
    if row.children:
        plan = "The calls that it started are cancelled too. The tool is notified at once"
    if row.cancel_policy == CancelPolicy.COOPERATIVE:
        return f"{plan} and never interrupted: it stops where it checks for a cancellation, or runs to its end."
    plan += f", interrupted after {duration(row.cooperative_grace)}"
    if row.cancel_policy == CancelPolicy.INTERRUPT:
        return f"{plan}, and never killed."
    return f"{plan}, and killed after {duration(row.hard_grace)}."


def _family(site: AdminSite, row: Request) -> dict[str, Any]:
    """Return links to the request that started it and to the requests it started."""
    if not row.children:
        return {"started": [], "more_started": False}
    columns = ("tool", "status", "cancel_requested_at", "cancel_policy", "submitted_at", "finished_at")
    found = Request.objects.filter(parent=row.pk).only(*columns).order_by("submitted_at")[: STARTED + 1]
    started = [
        {
            "badge": status_badge(each),
            "link": _link(site, each.pk, text(each.tool, NAME_CHARS)),
            "took": between(each.submitted_at, each.finished_at or datetime.now(UTC)),
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
    stored_traceback = stored.traceback or ""
    return {
        "state": safe_text(stored.status, NAME_CHARS),
        "worker": safe_text(stored.worker or NOTHING, NAME_CHARS),
        "done": moment(stored.date_done, precise=True),
        "traceback": excerpt(stored_traceback) if stored_traceback and payload else None,
        "withheld": bool(stored_traceback) and not payload,
    }
