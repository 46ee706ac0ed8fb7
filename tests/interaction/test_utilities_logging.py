"""2026-07-28 server/utilities/logging.

The worker's tests cover rate and levels of a tool's records.
"""

import pytest

from mcp_app.tools import tool
from tests.interaction.answers import rejected_with, result_of
from tests.support.asgi_client import META, call, message, post
from tests.support.worker import Worker

pytestmark = pytest.mark.usefixtures("_tools")


LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LEVEL = META + "logLevel"


@pytest.fixture
def _tools(_empty: None, configure) -> None:
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0, VITAL_SIGNS_INTERVAL=60.0)

    @tool
    def work() -> str:
        """Work."""
        return ""


def test_the_capability_is_declared() -> None:
    assert result_of("server/discover")["capabilities"]["logging"] == {}


async def test_messages_are_at_or_above_the_level_that_the_request_asks_for(worker: Worker) -> None:
    for number, level in enumerate(LEVELS):
        client = await post(call(meta={LEVEL: level}))
        request_id = await worker.claim()
        await worker.log(request_id, *LEVELS)
        await worker.finish(request_id)
        await client.head()
        *told, last = await client.rest()
        assert [each["params"]["level"] for each in told] == list(LEVELS[number:])
        assert {each["method"] for each in told} == {"notifications/message"}
        assert {each["params"]["logger"] for each in told} == {"tool"}
        assert "result" in last


async def test_without_a_level_there_are_none_and_they_stay_on_their_request_s_stream(worker: Worker) -> None:
    listener = await post(
        message("subscriptions/listen", "sub", meta={LEVEL: "debug"}, notifications={"toolsListChanged": True})
    )
    await listener.head()
    await listener.next_message()
    client = await post(call())
    request_id = await worker.claim()
    await worker.log(request_id, "emergency")
    await worker.report(request_id, 1)
    await worker.finish(request_id)
    assert "result" in await client.json()
    await listener.leave()
    assert await listener.silent()


async def test_an_unknown_level_is_invalid_params() -> None:
    for level in ("loud", "", "INFO", 1, {}):
        assert await rejected_with(message("tools/list", meta={LEVEL: level})) == (400, -32602)
    assert await rejected_with(message("logging/setLevel", level="debug")) == (404, -32601)
