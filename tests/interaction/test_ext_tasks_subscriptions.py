"""ext-tasks specification/draft/tasks, over HTTP: the notifications of a subscription with `taskIds`."""

import pytest

from mcp_app.lifecycle.audit.attempts import SYSTEM
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.states import Cause, Status
from tests.interaction.tasks import STRANGER, THREE, get, listen, next_notification, result_of, start
from tests.support.worker import Worker, in_thread

pytestmark = pytest.mark.usefixtures("task_tools")


async def test_a_subscription_tells_the_whole_task_as_it_is_and_then_each_change(worker: Worker) -> None:
    created, request = await start(worker)
    client, honoured = await listen(STRANGER, created["taskId"], created["taskId"])
    assert honoured == {"taskIds": [created["taskId"]]}
    assert (await next_notification(client))["status"] == "working"
    await worker.report(request.pk, 1, message="one")
    await worker.ask(request.pk, n="How many?")
    while (asking := await next_notification(client))["status"] == "working":
        pass
    assert asking["inputRequests"].keys() == {"n"}
    await result_of("tasks/update", created["taskId"], inputResponses={"n": THREE})
    assert (await next_notification(client))["status"] == "working"
    await worker.claim()
    await worker.finish(request.pk, text="told")
    done = await next_notification(client)
    shown = await get(created["taskId"])
    assert {**done, "_meta": None, "resultType": "complete"} == {**shown, "_meta": None}
    await client.leave()


async def test_a_subscription_to_a_finished_task_tells_its_outcome(worker: Worker) -> None:
    created, request = await start(worker)
    await in_thread(cancellation.cancel, request.pk, cause=Cause.ADMIN, actor=SYSTEM, reason="no longer needed")
    await worker.finish(request.pk, Status.CANCELLED)
    client, _ = await listen(created["taskId"])
    cancelled = await next_notification(client)
    assert cancelled["status"] == "cancelled"
    assert "administrator" in cancelled["statusMessage"]
    assert "no longer needed" in cancelled["statusMessage"]
    await client.leave()


async def test_a_subscription_to_no_task_of_ones_own_ends_at_once(worker: Worker) -> None:
    client, honoured = await listen(STRANGER)
    assert honoured == {}
    [final] = await client.rest()
    assert final["result"]["resultType"] == "complete"
