"""What the list of requests in flight shows besides their rows: places in queues, signs of workers, and what has left.

Bounded: one query for each of the three, whatever the page. Reads listed columns only.
"""

from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

from django.contrib.admin.views.main import PAGE_VAR
from django.http import HttpRequest
from django.urls import reverse

from mcp_app.admin.request_lists import RequestList
from mcp_app.lifecycle import queue_places, vital_signs
from mcp_app.states import OPEN, Status

SHOWN: Final = "shown"
"""The parameter by which a page that keeps itself current says which rows it has."""
MAX_SHOWN: Final = 100


class InFlightList(RequestList):
    """A page of the list, each row with its place in the queue or the signs of its worker."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        places = queue_places.places([row.pk for row in self.result_list if row.status == Status.QUEUED])
        signs = vital_signs.of_processes({row.worker for row in self.result_list if row.worker})
        for row in self.result_list:
            row.place, row.signs = places.get(row.pk), signs.get(row.worker)
        page = {PAGE_VAR: self.page_num} if self.page_num > 1 else {}
        site: Any = self.model_admin.admin_site
        live = reverse("admin:mcp_app_inflightrequest_live", current_app=site.name)
        self.live_url = f"{live}{self.get_query_string(page)}".rstrip("?")

    def add_left(self, request: HttpRequest, shown: Collection[UUID]) -> None:
        """Add those of the rows that are shown which have left: ended, or on another page by now."""
        left = set(shown) - {row.pk for row in self.result_list}
        if not left:
            return
        model_admin: Any = self.model_admin
        for row in model_admin.of_all(request).filter(pk__in=left).order_by("-submitted_at"):
            row.left = "moved" if row.status in OPEN else "ended"
            self.result_list.append(row)


def pop_shown(request: HttpRequest) -> list[UUID]:
    """The rows that a page says it shows. Taken out of the query, which otherwise holds filters."""
    query = request.GET.copy()
    named = ",".join(query.pop(SHOWN, [])).split(",")[:MAX_SHOWN]
    request.GET = query  # type: ignore[assignment]  # a copy of its own kind
    return [found for each in named if (found := _uuid(each)) is not None]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
