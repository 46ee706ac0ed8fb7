"""Sends tasks and control commands to Celery's workers. Messages carry the ids of requests and nothing else.

Tasks are sent by name, because `mcp_app.execution`, which has the tasks, must not be imported here.
"""

import logging
import time
from collections.abc import Sequence
from uuid import UUID

from mcp_app.celery_adapter import broker
from mcp_app.celery_adapter.broker import CANCEL_COMMAND, REVOKE_COMMAND, RUN_TASK
from mcp_app.conf import settings
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

_silent_until = 0.0
"""No commands are sent before this time, because the broker has just failed."""


class BrokerUnavailableError(Exception):
    """The broker did not accept the message. The row has been closed, and the tool will not run."""


def publish(request: Request) -> None:
    """Publish a row that is QUEUED and committed.

    If the broker refuses, close the row as FAILED and raise `BrokerUnavailableError`, or
    `django.db.Error` if the row cannot be closed.

    An error is ignored if the row is not QUEUED any more: the message did arrive, or the request was cancelled.
    """
    [refused] = publish_all([request])
    if refused is not None:
        raise refused


def publish_all(requests: Sequence[Request]) -> list[Exception | None]:
    """Publish several rows on one connection. Return the exception that `publish` would raise for each, or `None`."""
    if not requests:
        return []
    try:
        broker.send_tasks(RUN_TASK, [(str(each.pk), each.queue) for each in requests])
    except Exception as error:
        logger.error("the broker did not take %s: %s", ", ".join(f"request {each.pk}" for each in requests), error)
        return [_closed(request, error) for request in requests]
    return [None] * len(requests)


def _closed(request: Request, refused: Exception) -> Exception | None:
    """Close a row that could not be published. Return the exception, or `None` if the row is not QUEUED any more."""
    details = {"cause": "broker", "message": str(refused)[:500]}
    try:
        if transitions.finish(request.pk, Status.FAILED, error=details) is None:
            return None
    except Exception as error:
        return error
    unavailable = BrokerUnavailableError("The task queue cannot be reached; try again in a moment.")
    unavailable.__cause__ = refused
    return unavailable


def send(request_id: UUID, queue: str) -> None:
    """Publish a row that stays QUEUED if the broker refuses, because supervision publishes it again.

    Raises `broker.SilentBrokerError`.
    """
    broker.send_tasks(RUN_TASK, [(str(request_id), queue)])


def tell_workers_to_stop(*request_ids: UUID) -> None:
    """Notify the workers that running requests must stop. A lost command costs time only, because workers also poll."""
    _broadcast(CANCEL_COMMAND, request_ids)


def revoke(*request_ids: UUID) -> None:
    """Make the workers drop the messages of requests that were closed while they were queued.

    Celery's own `revoke` would query the result backend for every id, and write to it, in the worker's event loop.
    """
    _broadcast(REVOKE_COMMAND, request_ids)


def _broadcast(command: str, request_ids: Sequence[UUID]) -> None:
    """Send a command to all workers. Never raises, because workers also find the requests by their rows.

    After a failure no command is sent for `PUBLISH_TIMEOUT`, because supervision cancels many requests on the thread
    that sends the worker's heartbeat, which must not wait for each of them.
    """
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    arguments = {"request_ids": [str(each) for each in request_ids]}
    try:
        broker.broadcast(command, arguments)
    except Exception as error:
        _silent_until = time.monotonic() + settings.PUBLISH_TIMEOUT
        logger.error("the broker did not take %s %s: %s", command, arguments, error)
