"""What clients ask to cancel in vain: told the same every time, audited in a few rows (faults B6, B10)."""

from mcp_app.lifecycle.bursts import RECORDED
from mcp_app.models import Cancellation
from mcp_app.protocol.tasks import EXTENSION
from mcp_app.states import Outcome
from mcp_app.transport import shutdown
from tests.transport.client import META, message, post, run
from tests.transport.worker import in_thread

KNOWS = {META + "clientCapabilities": {"extensions": {EXTENSION: {}}}}
MANY = 3 * RECORDED


def audit() -> list[tuple[str, str]]:
    return list(Cancellation.objects.order_by("pk").values_list("outcome", "reason"))


def test_many_cancellations_of_unknown_tasks_are_refused_alike_and_audited_in_a_few_rows() -> None:
    async def scenario() -> None:
        for number in range(MANY):
            asked = await post(message("tasks/cancel", meta=KNOWS, taskId=f"unknown {number}"))
            assert (await asked.json())["error"]["code"] == -32602
        assert await in_thread(audit) == [(Outcome.UNKNOWN, "")] * RECORDED
        await shutdown.drain()
        assert (await in_thread(audit))[RECORDED:] == [
            (Outcome.UNKNOWN, f"{MANY - RECORDED} more such attempts within 60 s")
        ]

    run(scenario())
