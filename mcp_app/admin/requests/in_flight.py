"""Add to the list of requests in flight: places in the queue, vital signs of workers, and rows that left the list.

Each of the three takes one query for the page. They read only the listed columns.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from mcp_app.admin.lists.live_lists import LiveList
from mcp_app.admin.requests.request_lists import RequestList
from mcp_app.lifecycle.liveness import queues, vital_signs
from mcp_app.states import OPEN, Status


class InFlightList(RequestList, LiveList):
    """A page of the list. Each row has its place in the queue, or the vital signs of its worker."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        places = queues.places([row.pk for row in self.result_list if row.status == Status.QUEUED])
        signs = vital_signs.of_processes({row.worker for row in self.result_list if row.worker})
        for row in self.result_list:
            row.place, row.signs = places.get(row.pk), signs.get(row.worker)

    def add_left(self, request: HttpRequest, shown: Collection[UUID]) -> None:
        """Add the shown rows that have left the page: they ended, or are on another page now."""
        left = set(shown) - {row.pk for row in self.result_list}
        if not left:
            return
        model_admin: Any = self.model_admin
        for row in model_admin.of_all(request).filter(pk__in=left).order_by("-submitted_at"):
            row.left = "moved" if row.status in OPEN else "ended"
            self.result_list.append(row)
