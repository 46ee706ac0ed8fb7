"""Cancel requests from the admin, after a page that asks for a reason.

Only a POST of a user with the permission cancels. An attempt without it is audited.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import Error as DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from mcp_app.admin.lists import bounded_pages
from mcp_app.admin.lists.bounded_pages import COUNTED
from mcp_app.admin.requests.request_columns import status_badge, text
from mcp_app.conf import settings
from mcp_app.lifecycle.audit.attempts import REASON_CHARS, Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.models import Request
from mcp_app.presentation.formatting import moment
from mcp_app.states import OPEN, Cause, Outcome

logger = logging.getLogger(__name__)

MAX_AT_ONCE: Final = 1_000

_WORDS: Final = {
    Outcome.ACCEPTED: ("cancelled", "cancelled"),
    Outcome.TOO_LATE: ("had already finished", "had already finished"),
    Outcome.DUPLICATE: ("had been cancelled before", "had been cancelled before"),
    Outcome.UNKNOWN: ("is unknown", "are unknown"),
}

_NOT_STORED: Final = "{} not cancelled: the database is busy or cannot be reached. Try again in a moment."


def cancel(request: HttpRequest, request_ids: Sequence[UUID | str]) -> None:
    """Cancel these requests in the user's name, for the posted reason, and show the outcome.

    If some cancellations could not be stored, the message reports it. Raises `BadRequest` for more requests than a page
    of the admin posts.
    """
    asks = _asks(request, request_ids)
    if len(asks) > MAX_AT_ONCE:
        raise BadRequest(f"At most {MAX_AT_ONCE} requests can be cancelled at once.")
    outcomes: Counter[Outcome] = Counter()
    try:
        for some in _batches(asks):
            outcomes.update(cancellation.cancel_all(some))
    except DatabaseError:
        logger.exception("the cancellation of %d requests could not be stored", len(asks) - outcomes.total())
        messages.error(request, _NOT_STORED.format(len(asks) - outcomes.total()))
        if not outcomes:
            return
    level = messages.SUCCESS if outcomes[Outcome.ACCEPTED] else messages.WARNING
    messages.add_message(request, level, describe(outcomes) or "Nothing was selected.")


def deny(request: HttpRequest, request_ids: Sequence[UUID | str]) -> NoReturn:
    """Reject a user without the permission, and audit the attempt."""
    for some in _batches(_asks(request, request_ids)[:MAX_AT_ONCE]):
        cancellation.deny(some)
    raise PermissionDenied


def describe(outcomes: Counter[Outcome]) -> str:
    """Describe the outcomes of cancellations, for example `3 cancelled, 1 had already finished`."""
    counted = [(outcomes[outcome], words) for outcome, words in _WORDS.items() if outcomes[outcome]]
    return ", ".join(f"{count} {words[count != 1]}" for count, words in counted)


def posted_ids(request: HttpRequest) -> list[str]:
    """Return the ids that the confirmation page posts in one field, because Django rejects a thousand fields."""
    return request.POST.get("request_ids", "").replace(",", " ").split()


def confirm(model_admin: Any, request: HttpRequest, selected: QuerySet[Request]) -> TemplateResponse:
    """Return the page that lists the selected requests and asks for a reason. It cancels nothing."""
    rows = list(selected[:MAX_AT_ONCE])
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Cancel requests",
        "opts": model_admin.opts,
        "media": model_admin.media,
        "lines": [line(row) for row in rows],
        "request_ids": ",".join(str(row.pk) for row in rows),
        "unselected": _unselected(selected) if len(rows) == MAX_AT_ONCE else 0,
        "maximum": MAX_AT_ONCE,
        "ended": sum(row.status not in OPEN for row in rows),
        "filters": request.GET.urlencode(),
        "reason_chars": max_reason_chars(),
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "admin/mcp_app/cancel_requests.html", context)


def _unselected(selected: QuerySet[Request]) -> int | str:
    number = bounded_pages.count(selected, COUNTED + 1) - MAX_AT_ONCE
    return number if number <= COUNTED - MAX_AT_ONCE else f"over {COUNTED - MAX_AT_ONCE}"


def max_reason_chars() -> int:
    """Return the length at which a reason is cut."""
    return min(int(settings.MAX_REASON_CHARS), REASON_CHARS)


def actor(request: HttpRequest) -> Actor:
    """Return the user and their address as an actor."""
    return Actor(str(request.user.get_username()), request.META.get("REMOTE_ADDR") or "")


def line(row: Request) -> dict[str, object]:
    """Return the line for a request on the page that asks for a reason."""
    return {
        "id": row.pk,
        "state": status_badge(row),
        "tool": text(row.tool),
        "caller": text(row.principal_label),
        "submitted": moment(row.submitted_at),
    }


def _asks(request: HttpRequest, request_ids: Sequence[UUID | str]) -> list[CancellationRequest]:
    """Return a cancellation for each request."""
    once = dict.fromkeys(request_ids)
    reason = request.POST.get("reason", "")
    return [CancellationRequest(request_id, Cause.ADMIN, actor(request), reason) for request_id in once]


def _batches(asks: Sequence[CancellationRequest]) -> Iterator[Sequence[CancellationRequest]]:
    for start in range(0, len(asks), cancellation.TOGETHER):
        yield asks[start : start + cancellation.TOGETHER]
