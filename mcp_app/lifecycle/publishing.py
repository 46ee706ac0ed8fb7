"""Handing work to Celery and speaking to its workers, by name: messages carry the row's id and nothing else.

Refuses to import the tasks: they live in the workers' room.
"""

import logging
import threading
import time
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle import broker, transitions
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

RUN_TASK = "mcp_app.run"
CANCEL_COMMAND = "mcp_cancel"

_speechless_until = 0.0
_words = threading.Lock()
_untold: list[str] = []
_telling = False


class BrokerUnavailableError(Exception):
    """The broker did not take the message; the row is closed and nothing will run."""


def publish(request: Request) -> None:
    """Send a committed QUEUED row to its queue. Raises BrokerUnavailableError, with the row FAILED.

    Returns when the row is not queued any more: the message did arrive, or somebody cancelled meanwhile.
    """
    try:
        send(request.pk, request.queue)
    except Exception as error:
        logger.error("the broker did not take request %s: %s", request.pk, error)
        details = {"cause": "broker", "message": str(error)[:500]}
        if transitions.finish(request.pk, Status.FAILED, error=details) is not None:
            raise BrokerUnavailableError("The task queue is not reachable; try again in a moment.") from error


def send(request_id: UUID, queue: str) -> None:
    """Put the message for one row into the broker; the task's id is the row's. Raises broker.SilentBrokerError."""
    broker.send_task(RUN_TASK, args=(str(request_id),), task_id=str(request_id), queue=queue, ignore_result=False)


def tell_workers_to_stop(request_id: UUID) -> None:
    """Tell the workers that a running request is to be cancelled: now or, while another thread is telling them of
    others, with its next word. A lost word costs time only: they look, too.
    """
    global _telling
    with _words:
        _untold.append(str(request_id))
        if _telling:
            return
        _telling = True
    try:
        while request_ids := _next_words():
            _control(CANCEL_COMMAND, {"request_ids": request_ids})
    finally:
        _telling = False


def _next_words() -> list[str]:
    global _telling
    with _words:
        request_ids = list(_untold)
        _untold.clear()
        _telling = bool(request_ids)
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
