"""`tools/call` over HTTP: JSON or an event stream, progress and log messages (streamable-http, progress, logging)."""

import json

import pytest

from mcp_app.catalogue.registry import tool
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from tests.support import legacy_asgi_client
from tests.support.asgi_client import META, call, message, post
from tests.support.stdio_client import connect
from tests.support.worker import Worker, eventually, in_thread, row


async def test_quick_call_is_answered_as_plain_json(worker: Worker) -> None:
    client = await post(call(text="hi", request_id="a"))
    request_id = await worker.claim()
    await worker.finish(request_id, text="hi")
    answer = await client.json()
    assert client.status == 200
    assert client.headers["content-type"] == "application/json"
    assert answer["id"] == "a"
    assert answer["result"]["content"] == [{"type": "text", "text": "hi"}]
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["_meta"][META + "serverInfo"]["name"]


async def test_call_is_a_row_with_everything_that_was_asked(worker: Worker) -> None:
    meta = {META + "clientInfo": {"name": "c", "version": "1"}, "progressToken": 0, META + "logLevel": "info"}
    client = await post(call(request_id="", text="x", meta=meta))
    stored = await row(await worker.receive())
    assert (stored.jsonrpc_id, stored.tool, stored.arguments) == ("", "work", {"text": "x"})
    assert (stored.progress_token, stored.log_level) == (0, "info")
    assert stored.client_info == {"name": "c", "version": "1"}
    assert stored.remote_address == "192.0.2.1"
    assert stored.server is not None
    await client.leave()


async def test_arguments_that_are_null_are_none_in_both_eras_and_over_stdio(worker: Worker) -> None:
    modern = await post(message("tools/call", name="work", arguments=None))
    assert (await row(await worker.receive())).arguments == {}
    await modern.leave()
    session = await legacy_asgi_client.Client.opened()
    legacy = await session.post(legacy_asgi_client.request("tools/call", name="work", arguments=None))
    assert (await row(await worker.receive())).arguments == {}
    await legacy.leave()
    async with connect() as client:
        await client.send(message("tools/call", name="work", arguments=None))
        request_id = await worker.claim()
        assert (await row(request_id)).arguments == {}
        await worker.finish(request_id)
        assert "result" in await client.receive()


async def test_arguments_that_are_json_text_are_accepted_and_kept_as_they_were_sent(worker: Worker) -> None:
    @tool
    def find(where: dict[str, int], limit: int = 1) -> str:
        """Find something."""
        return ""

    sent = {"where": '{"a": 1}', "limit": "5"}
    client = await post(call("find", **sent))
    assert (await row(await worker.receive())).arguments == sent
    await client.leave()
    client = await post(call("find", where="{'a': 1}"))
    answer = await client.json()
    assert answer["result"]["isError"] is True
    assert worker.idle()


async def test_members_that_are_null_are_absent_in_a_session() -> None:
    session = await legacy_asgi_client.Client.opened()
    listed = await session.ask("tools/list", cursor=None, _meta=None)
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["inquisitive", "regional", "work"]
    ping = await session.post({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": None})
    assert json.loads(await ping.body())["result"] == {}


@pytest.mark.parametrize("token", [0, "", "t", 7])
async def test_progress_streams_to_its_token(worker: Worker, token: str | int) -> None:
    client = await post(call(meta={"progressToken": token}))
    request_id = await worker.claim()
    await worker.report(request_id, 1, total=3, message="one")
    await client.head()
    assert client.headers["content-type"] == "text/event-stream"
    assert client.headers["cache-control"] == "no-cache, no-transform"
    assert client.headers["x-accel-buffering"] == "no"
    first = await client.next_message()
    assert first["method"] == "notifications/progress"
    assert first["params"] == {"progressToken": token, "progress": 1, "total": 3, "message": "one"}
    await worker.finish(request_id)
    [final] = await client.rest()
    assert final["result"]["content"][0]["text"] == "done"


@pytest.mark.fault("E5")
async def test_only_growing_progress_is_sent(worker: Worker) -> None:
    client = await post(call(meta={"progressToken": "t"}))
    request_id = await worker.claim()
    await worker.report(request_id, 1, 1, 0.5, 2, -3, 2.5)
    await worker.finish(request_id)
    await client.head()
    *progress, _ = await client.rest()
    assert [each["params"]["progress"] for each in progress] == [1, 2, 2.5]


async def test_progress_without_a_token_stays_off_the_wire(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await worker.finish(request_id)
    assert "result" in await client.json()
    assert client.headers["content-type"] == "application/json"


async def test_log_lines_come_at_or_above_the_level_asked_for(worker: Worker) -> None:
    client = await post(call(meta={META + "logLevel": "warning"}))
    request_id = await worker.claim()
    await worker.log(request_id, "debug", "warning", "notice", "emergency")
    await worker.finish(request_id)
    await client.head()
    *lines, _ = await client.rest()
    assert [line["params"] for line in lines] == [
        {"level": level, "data": level, "logger": "tool"} for level in ("warning", "emergency")
    ]
    assert {line["method"] for line in lines} == {"notifications/message"}


async def test_slow_call_becomes_an_event_stream_kept_alive_by_comments(worker: Worker, configure) -> None:
    configure(SSE_AFTER=0.01, KEEP_ALIVE=0.01)
    client = await post(call())
    request_id = await worker.claim()
    await client.head()
    assert client.headers["content-type"] == "text/event-stream"
    for _ in range(3):
        assert await client.event() is None
    await worker.finish(request_id)
    [final] = await client.rest()
    assert final["id"] == 1


async def test_client_that_takes_json_alone_never_gets_a_stream(worker: Worker, configure) -> None:
    configure(SSE_AFTER=0.01)
    client = await post(call(meta={"progressToken": 1}), accept="application/json")
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await worker.finish(request_id)
    assert "result" in await client.json()
    assert client.headers["content-type"] == "application/json"


async def test_client_that_takes_streams_alone_never_gets_json(worker: Worker) -> None:
    client = await post(call(), accept="text/event-stream")
    await worker.finish(await worker.claim())
    await client.head()
    assert client.headers["content-type"] == "text/event-stream"
    [final] = await client.rest()
    assert "result" in final


async def test_delivered_answer_is_noted_in_its_row(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.claim()
    await worker.finish(request_id)
    await client.json()
    await eventually(lambda: Request.objects.get(pk=request_id).delivered_at)


async def test_equal_ids_in_flight_are_answered_each_on_its_own(worker: Worker) -> None:
    first, second = await post(call(text="1")), await post(call(text="2"))
    for _ in range(2):
        request_id = await worker.claim()
        await worker.finish(request_id, text=(await row(request_id)).arguments["text"])
    assert (await first.json())["result"]["content"][0]["text"] == "1"
    assert (await second.json())["result"]["content"][0]["text"] == "2"


async def test_call_cancelled_by_an_administrator_is_told_so(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.receive()
    await in_thread(cancellation.cancel, request_id, cause=Cause.ADMIN, actor=Actor("alice"), reason="too expensive")
    result = (await client.json())["result"]
    assert result["isError"] is True
    assert "administrator" in result["content"][0]["text"]
    assert "too expensive" in result["content"][0]["text"]


async def test_lost_call_is_told_so(worker: Worker) -> None:
    client = await post(call())
    request_id = await worker.claim()
    await worker.finish(request_id, Status.LOST)
    result = (await client.json())["result"]
    assert result["isError"] is True
    assert "worker process" in result["content"][0]["text"]


@pytest.mark.fault("E4")
async def test_answer_comes_without_any_wake_up(worker: Worker, configure, monkeypatch) -> None:
    """A wake-up may be lost. The rows are polled as well."""
    configure(POLL_INTERVAL=0.02)
    monkeypatch.setattr("mcp_app.lifecycle.liveness.wakeups.wake_server", lambda *told: None)
    client = await post(call())
    await worker.finish(await worker.claim())
    assert "result" in await client.json()
