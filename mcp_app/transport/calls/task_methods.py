"""Serves `tasks/get`, `tasks/update` and `tasks/cancel`, for the principal that owns the task.

Unknown tasks, tasks of others and expired tasks get the same error. The methods wait for the
database only: answers and cancellations are stored, and the client polls for their effect.
Source: ext-tasks specification/draft/tasks.
"""

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.errors import MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.input import questions
from mcp_app.lifecycle import task_handles
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.input import task_inputs
from mcp_app.models import Request
from mcp_app.protocol import results, tasks
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, clip, fail
from mcp_app.protocol.tasks import Task, UpdateTask
from mcp_app.states import TERMINAL, Cause, Status
from mcp_app.transport.serving.exchange import Exchange
from mcp_app.transport.serving.failures import database_away
from mcp_app.transport.serving.input_responses import publish_answered

UNKNOWN: Final = "There is no such task, or it has expired."


async def get(exchange: Exchange) -> None:
    """`tasks/get`: return the task, with the call's result or error once it has ended."""
    task_id = tasks.read_task_id(exchange.route)
    if isinstance(task_id, Rejection):
        await exchange.reject(task_id)
        return
    # If every worker is dead, no other process may notice that this task is lost.
    await exchange.server.upkeep.supervise()
    found = await exchange.server.rows.run(_find, task_id, exchange)
    if isinstance(found, Rejection):
        await exchange.reject(found)
        return
    row, task = found
    await exchange.complete(results.complete(tasks.detailed_task(task, exchange.server_info()), exchange.server_info()))
    if row.status in TERMINAL:
        exchange.server.row_watcher.delivered(row.pk)


async def update(exchange: Exchange) -> None:
    """`tasks/update`: store answers to the task's questions, if all of them fit.

    Unknown keys are ignored.
    """
    brought = tasks.read_update_task(exchange.route)
    taken = brought if isinstance(brought, Rejection) else await exchange.server.rows.run(_answer, brought, exchange)
    if isinstance(taken, Rejection):
        await exchange.reject(taken)
        return
    if taken is not None and taken.status == Status.QUEUED:
        await publish_answered(taken, exchange.server)
    await _acknowledge(exchange)


async def cancel(exchange: Exchange) -> None:
    """`tasks/cancel`: store the cancellation and acknowledge it, even if the task has ended."""
    task_id = tasks.read_task_id(exchange.route)
    if isinstance(task_id, Rejection):
        await exchange.reject(task_id)
        return
    row = await exchange.server.rows.run(task_handles.find, task_id, exchange.principal)
    actor = Actor(exchange.principal.label, exchange.remote_address)
    # An attempt on another caller's task is audited as one on an unknown request, so that it
    # reveals no row.
    target = f"task {clip(task_id)}" if row is None else row.pk
    stored = await exchange.server.cancellations.cancel(
        CancellationRequest(target, Cause.CLIENT, actor, "", exchange.principal)
    )
    if not stored:
        await exchange.reject(database_away(exchange.route.request_id))
    elif row is None:
        await exchange.reject(_unknown(exchange))
    else:
        await _acknowledge(exchange)


def _find(task_id: str, exchange: Exchange) -> tuple[Request, Task] | Rejection:
    row = task_handles.find(task_id, exchange.principal)
    return _unknown(exchange) if row is None else (row, task_handles.shown(row))


def _answer(brought: UpdateTask, exchange: Exchange) -> Request | Rejection | None:
    row = task_handles.find(brought.task_id, exchange.principal)
    if row is None:
        return _unknown(exchange)
    try:
        answers = _checked(row, brought.input_responses)
    except (MalformedAnswer, UnfitAnswer) as error:
        return fail(INVALID_PARAMS, str(error), exchange.route.request_id)
    return task_inputs.answer(row.pk, row.input_round, answers) if answers else None


def _checked(row: Request, responses: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers to the open questions, by the tool's keys.

    Raises `MalformedAnswer` and `UnfitAnswer`.
    """
    answers, asked = {}, row.unredacted_value("questions")
    for key, question in task_inputs.keys(row).items():
        if key not in responses:
            continue
        try:
            answers[question] = questions.check(asked[question], responses[key])
        except (MalformedAnswer, UnfitAnswer) as error:
            # No answer was stored, so the question stays open under its key.
            raise type(error)(f"params.inputResponses[{clip(key)!r}]: {str(error).rstrip('.')}.") from None
    return answers


async def _acknowledge(exchange: Exchange) -> None:
    await exchange.complete(results.complete({}, exchange.server_info()))


def _unknown(exchange: Exchange) -> Rejection:
    return fail(INVALID_PARAMS, UNKNOWN, exchange.route.request_id)
