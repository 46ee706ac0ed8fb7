"""`tasks/get`, `tasks/update`, `tasks/cancel`: a task by its handle, for the principal whose it is.

An unknown task, another's and an expired one get the same words. Refuses to wait for anything but the database: what a
client brings or asks for is stored, and shows when it has taken effect.
Source: ext-tasks specification/draft/tasks.
"""

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue import questions
from mcp_app.catalogue.errors import MalformedAnswer, UnfitAnswer
from mcp_app.lifecycle import task_handles, task_inputs
from mcp_app.lifecycle.audit import Actor
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.models import Request
from mcp_app.protocol import results, tasks
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, clip, fail
from mcp_app.protocol.tasks import Task, UpdateTask
from mcp_app.states import TERMINAL, Cause, Status
from mcp_app.transport.answered import publish_answered
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.failures import database_away

UNKNOWN: Final = "There is no such task, or it has expired."


async def get(exchange: Exchange) -> None:
    """`tasks/get`: the whole task; once it has ended, with what the call would have been answered."""
    task_id = tasks.read_task_id(exchange.route)
    if isinstance(task_id, Rejection):
        await exchange.reject(task_id)
        return
    # With every worker dead nobody else may look whether this task is lost.
    await exchange.server.upkeep.supervise()
    found = await exchange.server.rows.run(_look, task_id, exchange)
    if isinstance(found, Rejection):
        await exchange.reject(found)
        return
    row, task = found
    await exchange.complete(results.complete(tasks.detailed(task, exchange.server_info()), exchange.server_info()))
    if row.status in TERMINAL:
        exchange.server.tail.delivered(row.pk)


async def update(exchange: Exchange) -> None:
    """`tasks/update`: answers to what the task asks. All are checked before any is taken; unknown keys are ignored."""
    brought = tasks.read_update_task(exchange.route)
    taken = brought if isinstance(brought, Rejection) else await exchange.server.rows.run(_answer, brought, exchange)
    if isinstance(taken, Rejection):
        await exchange.reject(taken)
        return
    if taken is not None and taken.status == Status.QUEUED:
        await publish_answered(taken, exchange.server)
    await _acknowledge(exchange)


async def cancel(exchange: Exchange) -> None:
    """`tasks/cancel`: acknowledged once it is stored, also for a task that has ended; what comes of it shows later."""
    task_id = tasks.read_task_id(exchange.route)
    if isinstance(task_id, Rejection):
        await exchange.reject(task_id)
        return
    row = await exchange.server.rows.run(task_handles.find, task_id, exchange.principal)
    actor = Actor(exchange.principal.label, exchange.remote_address)
    # An attempt on a task that is not the caller's is audited as on an unknown request: it tells of no row.
    target = f"task {clip(task_id)}" if row is None else row.pk
    stored = await exchange.server.cancellations.cancel(Ask(target, Cause.CLIENT, actor, "", exchange.principal))
    if not stored:
        await exchange.reject(database_away(exchange.route.request_id))
    elif row is None:
        await exchange.reject(_unknown(exchange))
    else:
        await _acknowledge(exchange)


def _look(task_id: str, exchange: Exchange) -> tuple[Request, Task] | Rejection:
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
    """The answers to what is asked now, by the tool's keys. Raises `MalformedAnswer`, `UnfitAnswer`."""
    answers, asked = {}, row.original("questions")
    for key, question in task_inputs.keys(row).items():
        if key not in responses:
            continue
        try:
            answers[question] = questions.check(asked[question], responses[key])
        except (MalformedAnswer, UnfitAnswer) as error:
            # Nothing was delivered, so the question stays, under its key.
            raise type(error)(f"params.inputResponses[{clip(key)!r}]: {str(error).rstrip('.')}.") from None
    return answers


async def _acknowledge(exchange: Exchange) -> None:
    await exchange.complete(results.complete({}, exchange.server_info()))


def _unknown(exchange: Exchange) -> Rejection:
    return fail(INVALID_PARAMS, UNKNOWN, exchange.route.request_id)
