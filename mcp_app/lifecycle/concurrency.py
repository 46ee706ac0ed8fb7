"""How many calls of one tool a caller has open at once: counted as rows, one after the other.

Not in the cache: a count there stays wrong when a process dies between its two halves, and a row ends with its call,
whatever ends that. A call that waits for its user is not counted, and one that was answered goes on. What tools start
counts for a limit that the tool itself has. Refuses to keep its lock for longer than it takes to store a row.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from mcp_app import databases
from mcp_app.lifecycle.locks import transactional
from mcp_app.lifecycle.submission import Submission
from mcp_app.models import Request
from mcp_app.states import Status

R = TypeVar("R")


@transactional
def submit(
    submission: Submission, at_most: int, store: Callable[[Submission], R], *, with_started: bool = False
) -> R | None:
    """What `store` makes of a call; None where its caller has as many of its tool as may be, of those that clients
    called or, `with_started`, of all.

    An anonymous caller is one for each address.
    """
    principal = submission.principal
    who: dict[str, Any] = {**principal.columns, "tool": submission.tool}
    if not principal.subject:
        who["remote_address"] = submission.remote_address
    _take_turn("/".join(map(str, who.values())))
    if not with_started:
        who["parent"] = None
    being_done = Request.objects.filter(**who, status__in=(Status.QUEUED, Status.RUNNING), finished_at=None)
    return None if being_done.exclude(pk=submission.id).count() >= at_most else store(submission)


def _take_turn(name: str) -> None:
    """Until the transaction ends nobody else counts the same; on SQLite there is one writer in any case."""
    connection = databases.connection()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"mcp_app.calls/{name}"])
