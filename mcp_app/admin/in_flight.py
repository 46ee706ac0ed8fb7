"""What the list of requests in flight shows besides their rows: places in queues, signs of workers, and what has left.

Bounded: one query for each of the three, whatever the page. Reads listed columns only.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from mcp_app.admin.live_lists import LiveList
from mcp_app.admin.request_lists import RequestList
from mcp_app.lifecycle import queue_places, vital_signs
from mcp_app.states import OPEN, Status


class InFlightList(RequestList, LiveList):
    """A page of the list, each row with its place in the queue or the signs of its worker."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        places = queue_places.places([row.pk for row in self.result_list if row.status == Status.QUEUED])
        signs = vital_signs.of_processes({row.worker for row in self.result_list if row.worker})
        for row in self.result_list:
            row.place, row.signs = places.get(row.pk), signs.get(row.worker)

    def add_left(self, request: HttpRequest, shown: Collection[UUID]) -> None:
        """Add those of the rows that are shown which have left: ended, or on another page by now."""
        left = set(shown) - {row.pk for row in self.result_list}
        if not left:
            return
        model_admin: Any = self.model_admin
        for row in model_admin.of_all(request).filter(pk__in=left).order_by("-submitted_at"):
            row.left = "moved" if row.status in OPEN else "ended"
            self.result_list.append(row)
