"""Handing work to Celery and speaking to its workers, by name: messages carry the rows' ids and nothing else.

Calls of one moment share a message where their tools are quick: to be sent, taken and reported costs a call as much as
a small tool does. Refuses to import the tasks: they live in the workers' room.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from uuid import UUID

from django.db.models import Case, When

from mcp_app.conf import settings
from mcp_app.lifecycle import broker, run_times, transitions
from mcp_app.lifecycle.task_messages import Addressed
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

RUN_TASK = "mcp_app.run"
RUN_BATCH_TASK = "mcp_app.run_batch"
MOST_IN_BATCH = 8
"""Calls that share a message, and may run one after another."""
BATCH_SECONDS = 0.1
"""What they take together at the most, by what is known of their tools."""
CANCEL_COMMAND = "mcp_cancel"
REVOKE_COMMAND = "mcp_revoke"
OVERDUE_COMMAND = "mcp_overdue"
SHUTDOWN_COMMAND = "mcp_shutdown"
PRESENCE_COMMAND = "mcp_presence"

_speechless_until = 0.0
_words = threading.Lock()
_unsaid: defaultdict[str, list[str]] = defaultdict(list)
_being_said: set[str] = set()


class BrokerUnavailableError(Exception):
    """The broker did not take the message; the row is closed and nothing will run."""


def publish(request: Request) -> None:
    """Send a committed QUEUED row to its queue. Raises BrokerUnavailableError, with the row FAILED.

    Returns when the row is not queued any more: the message did arrive, or somebody cancelled meanwhile.
    """
    [refused] = publish_all([request])
    if refused is not None:
        raise refused


def publish_all(requests: Sequence[Request]) -> list[Exception | None]:
    """The same of several, in one word; what `publish` raises of each."""
    if not requests:
        return []
    try:
        broker.send_tasks(RUN_TASK, list(_messages(requests)), batch=RUN_BATCH_TASK)
    except Exception as error:
        logger.error("the broker did not take %s: %s", ", ".join(f"request {each.pk}" for each in requests), error)
        return [_closed(request, error) for request in requests]
    return [None] * len(requests)


def _messages(requests: Sequence[Request]) -> Iterator[Addressed]:
    """One for each; one for several that wait for the same workers, and may wait for one another."""
    by_queue: defaultdict[str, list[Request]] = defaultdict(list)
    for request in requests:
        by_queue[request.queue].append(request)
    for queue, waiting in by_queue.items():
        for part in _parts(waiting):
            yield Addressed([str(request.pk) for request in part], queue)


def _parts(requests: Iterable[Request]) -> Iterator[list[Request]]:
    part: list[Request] = []
    seconds = 0.0
    for request in requests:
        takes = run_times.average(request.tool)
        if part and (len(part) == MOST_IN_BATCH or seconds + takes > BATCH_SECONDS):
            yield part
            part, seconds = [], 0.0
        part.append(request)
        seconds += takes
    if part:
        yield part


def _closed(request: Request, refused: Exception) -> Exception | None:
    """Close a row that the broker did not take; None where it is not queued any more."""
    details = {"cause": "broker", "message": str(refused)[:500]}
    try:
        if transitions.finish(request.pk, Status.FAILED, error=details) is None:
            return None
    except Exception as error:
        return error
    unavailable = BrokerUnavailableError("The task queue is not reachable; try again in a moment.")
    unavailable.__cause__ = refused
    return unavailable


def send(request_id: UUID, queue: str) -> None:
    """Put the message for one row into the broker; the task's id is the row's. Raises broker.SilentBrokerError."""
    broker.send_tasks(RUN_TASK, [Addressed([str(request_id)], queue)])


def send_unclaimed(request_ids: Collection[UUID]) -> None:
    """The same for those of these rows that are queued. Raises broker.SilentBrokerError."""
    is_queued = Case(When(status=Status.QUEUED, then=True), default=False)  # no index but the key finds them
    queued = Request.objects.filter(is_queued, pk__in=request_ids).values_list("pk", "queue")
    if messages := [Addressed([str(request_id)], queue) for request_id, queue in queued]:
        logger.info("%d calls waited behind another in their message, and are published again", len(messages))
        broker.send_tasks(RUN_TASK, messages)


def tell_workers_to_stop(*request_ids: UUID) -> None:
    """Tell the workers that running requests are to be cancelled. A lost word costs time only: they look, too."""
    _tell(CANCEL_COMMAND, map(str, request_ids))


def tell_workers_of_deadline(request_id: UUID, input_round: int) -> None:
    """Tell the workers that a run's time limit has passed: that after so many rounds of input, and no later one.

    A lost word costs time only: they look, too.
    """
    _tell(OVERDUE_COMMAND, [f"{request_id}/{input_round}"])


def tell_workers_of_shutdown(request_id: UUID) -> None:
    """Tell the workers that the process which runs a request is to end, and that the request has had its time."""
    _tell(SHUTDOWN_COMMAND, [str(request_id)])


def revoke(*request_ids: UUID) -> None:
    """Tell the workers to drop the messages of rows that were closed while queued.

    Not by Celery's own command: for every id that one asks the result backend, and writes to it, in the worker's loop.
    """
    _tell(REVOKE_COMMAND, map(str, request_ids))


def _tell(command: str, words: Iterable[str]) -> None:
    """Say it now; or, while another thread is saying such a word, leave it to be said with its next one."""
    with _words:
        _unsaid[command] += words
        if command in _being_said:
            return
        _being_said.add(command)
    try:
        while words := _next_words(command):
            _control(command, {"request_ids": words})
    finally:
        _being_said.discard(command)


def _next_words(command: str) -> list[str]:
    with _words:
        if not (request_ids := _unsaid.pop(command, [])):
            _being_said.discard(command)
        return request_ids


def _control(command: str, arguments: dict[str, list[str]]) -> None:
    """Never raises: what is to be done is in the row. After a failure the broker is left alone for a while.

    Supervision cancels in bulk on the thread that beats the worker's heart; it must not wait for every row's word.
    """
    global _speechless_until
    if time.monotonic() < _speechless_until:
        return
    try:
        broker.broadcast(command, arguments)
    except Exception as error:
        _speechless_until = time.monotonic() + settings.PUBLISH_TIMEOUT
        logger.error("the broker did not take %s %s: %s", command, arguments, error)
