"""Cancel a group of requests from the admin: those of the same caller, tool or session, or started by one request.

A URL names a group by the id of a request in it, or of the request that started it, so that no URL holds an
identity. Only a POST of a user with the permission cancels, after a page that shows the number and asks for a reason.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, NoReturn
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse

from mcp_app.admin.requests.cancelling import actor, describe, line, max_reason_chars
from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.cancellation import cancellation, groups
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.cancellation.groups import RequestGroup
from mcp_app.models import Request
from mcp_app.safe_text import safe_text
from mcp_app.states import Cause, Outcome

logger = logging.getLogger(__name__)

SHOWN: Final = 100
PAYLOAD: Final = ("arguments", "result", "partial_result", "error", "answers", "questions", "kept", "unredacted")
TITLES: Final = {
    "caller": "Cancel all requests of this caller",
    "tool": "Cancel all requests of this tool",
    "session": "Cancel all requests of this session",
    "children": "Cancel all calls that it started",
}
_GROUPS: Final[dict[str, Callable[[Request], RequestGroup | None]]] = {
    "caller": lambda row: groups.of_principal(Principal.of(row)),
    "tool": lambda row: groups.of_tool(row.tool),
    "session": lambda row: None if row.session is None else groups.of_session(row.session),
    "children": lambda row: groups.of_parent(row.pk) if row.children else None,
}


def kinds(row: Request) -> list[str]:
    """Return the groups that a request has."""
    return [kind for kind, group_of in _GROUPS.items() if group_of(row) is not None]


def group(row: Request, kind: str) -> RequestGroup:
    """Return one group of a request. Raises Http404."""
    found = _GROUPS[kind](row) if kind in _GROUPS else None
    if found is None:
        raise Http404("There is no such group.")
    return found


def url(site: Any, request_id: UUID, kind: str) -> str:
    """Return the URL at which a group is cancelled."""
    return reverse("admin:mcp_app_request_cancel_all", args=(request_id, kind), current_app=site.name)


def confirm(model_admin: Any, request: HttpRequest, row: Request, kind: str) -> TemplateResponse:
    """Return the page that shows the open requests of the group and asks for a reason. It cancels nothing."""
    found = groups.open_in(group(row, kind))
    site = model_admin.admin_site
    context = {
        **site.each_context(request),
        "title": TITLES[kind],
        "opts": model_admin.opts,
        "media": model_admin.media,
        "group": safe_text(group(row, kind).name),
        "count": found.count(),
        "lines": [line(each) for each in found.defer(*PAYLOAD).order_by("submitted_at")[:SHOWN]],
        "action": url(site, row.pk, kind),
        "back": reverse("admin:mcp_app_request_change", args=(row.pk,), current_app=site.name),
        "reason_chars": max_reason_chars(),
    }
    request.current_app = site.name
    return TemplateResponse(request, "admin/mcp_app/cancel_group.html", context)


def cancel(request: HttpRequest, row: Request, kind: str) -> None:
    """Cancel the requests of the group that are open now, in the user's name, and show the outcome to the user."""
    reason = request.POST.get("reason", "")
    try:
        outcomes = groups.cancel(group(row, kind), cause=Cause.ADMIN, actor=actor(request), reason=reason)
    except DatabaseError:
        logger.exception("not all requests of a group could be cancelled")
        messages.error(
            request, "The database is busy or cannot be reached, so not all were cancelled. Try again in a moment."
        )
        return
    level = messages.SUCCESS if outcomes[Outcome.ACCEPTED] else messages.WARNING
    messages.add_message(request, level, describe(outcomes) or "No request of this group was open.")


def deny(request: HttpRequest, request_id: UUID, kind: str) -> NoReturn:
    """Reject a user without the permission. A POST is audited with the request in the URL."""
    if request.method == "POST":
        reason, group_of = request.POST.get("reason", ""), f"all of its {kind}"
        cancellation.deny([CancellationRequest(request_id, Cause.ADMIN, actor(request), reason, part_of=group_of)])
    raise PermissionDenied
