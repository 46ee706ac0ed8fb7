"""Limit how many calls of one tool a caller has open at once.

Rows are counted under a lock, which is held only while a row is stored. A counter in the cache would stay wrong if a
process died between its increment and decrement, while a row always ends with its call.
A call that waits for its user is not counted, and may exceed the limit when it goes on after the answer. Calls that
tools start count only for a limit that the tool itself sets.
"""

from collections.abc import Callable
from typing import TypeVar

from mcp_app.lifecycle.database.retries import transactional
from mcp_app.lifecycle.limits import capacity
from mcp_app.lifecycle.requests.submission import Submission
from mcp_app.models import ChangeVersion, Request
from mcp_app.states import Status

R = TypeVar("R")


@transactional
def submit(
    submission: Submission, at_most: int, store: Callable[[Submission], R], *, with_started: bool = False
) -> R | None:
    """Store a call with `store` and return its result. Return `None` if the caller has reached the limit of the tool.

    `with_started` counts calls that tools started as well as calls of clients. An anonymous caller is counted by its
    network (`Principal.network`).
    """
    who = {**capacity.columns(submission.principal), "tool": submission.tool}
    _take_turn(submission.tool)
    if not with_started:
        who["parent"] = None
    being_done = Request.objects.filter(**who, status__in=(Status.QUEUED, Status.RUNNING), finished_at=None)
    return None if being_done.exclude(pk=submission.id).count() >= at_most else store(submission)


def _take_turn(tool: str) -> None:
    """Lock a row until the transaction ends, so that no other process counts calls of the tool meanwhile."""
    ChangeVersion.objects.select_for_update().get_or_create(subject=f"calls:{tool}")
