"""Handing work to Celery and speaking to its workers, by name: messages carry the row's id and nothing else.

Refuses to import the tasks: they live in the workers' room.
"""

import logging
from uuid import UUID

from celery import current_app
from kombu.exceptions import OperationalError

from mcp_app.lifecycle import transitions
from mcp_app.lifecycle.clock import from_now
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

RUN_TASK = "mcp_app.run"
CANCEL_COMMAND = "mcp_cancel"

BROKER_ERRORS = (OperationalError, OSError)


class BrokerUnavailableError(Exception):
    """The broker did not take the message; the row is closed and nothing will run."""


def publish(request: Request) -> None:
    """Send a committed QUEUED row to its queue. Raises BrokerUnavailableError, with the row FAILED."""
    try:
        send(request.pk, request.queue)
    except BROKER_ERRORS as error:
        logger.error("the broker did not take request %s: %s", request.pk, error)
        transitions.finish(request.pk, Status.FAILED, error={"cause": "broker", "message": str(error)[:500]})
        raise BrokerUnavailableError("The task queue is not reachable; try again in a moment.") from error


def send(request_id: UUID, queue: str) -> None:
    """Put the message for one row into the broker; the task's id is the row's."""
    current_app.send_task(
        RUN_TASK,
        args=(str(request_id),),
        task_id=str(request_id),
        queue=queue,
        retry=False,
        ignore_result=False,
    )


def republish(request: Request) -> None:
    """Send a queued row again: the claim lets only one of its messages run."""
    Request.objects.filter(pk=request.pk, status=Status.QUEUED).update(published_at=from_now(0))
    send(request.pk, request.queue)
    logger.warning("request %s was claimed by nobody and is published again", request.pk)


def tell_workers_to_stop(request_id: UUID) -> None:
    """Tell the workers that a running request is to be cancelled. A lost word costs time only: they look, too."""
    _control(CANCEL_COMMAND, {"request_id": str(request_id)})


def revoke(request_id: UUID) -> None:
    """Tell the workers to drop a message they hold for a row that was closed while queued."""
    _control("revoke", {"task_id": str(request_id)})


def _control(command: str, arguments: dict[str, str]) -> None:
    try:
        current_app.control.broadcast(command, arguments=arguments)
    except BROKER_ERRORS as error:
        logger.error("the broker did not take %s %s: %s", command, arguments, error)
