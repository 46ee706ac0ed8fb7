"""Clients of 2025-11-25 and before that start `mcp stdio`: every revision, the heartbeat, and the official client."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.session import IncomingMessage
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    ResourceUpdatedNotification,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)

from mcp_app.protocol.revisions import LEGACY_REVISIONS
from tests.acceptance.situations import LONG, STEP
from tests.acceptance.test_heartbeats import EARLY, IDLE, INTERVAL
from tests.acceptance.test_stdio import client, ended, noisily, site
from tests.acceptance.test_subscriptions import COUNTER
from tests.support.site import wire
from tests.support.site.inspector import ROOT
from tests.support.site.stack import CONCURRENCY, Stack
from tests.support.site.stdio import COMMAND, PATIENCE, LegacyStdioClient
from tests.support.waiting import eventually

__all__ = ["client", "site"]

UPDATED = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": COUNTER}}
legacy = pytest.mark.parametrize("client", ["legacy"], indirect=True)


def words(result: object) -> str:
    assert isinstance(result, CallToolResult)
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


def until(client: LegacyStdioClient, request_id: str) -> list[dict[str, Any]]:
    """Return all messages before the response to this request."""
    told = []
    while (message := client.receive()).get("id") != request_id:
        told.append(message)
    return told


@pytest.mark.parametrize("version", LEGACY_REVISIONS[:-1])  # the newest is tested with the official client
def test_each_revision_lists_calls_and_hears_of_changes(site: Stack, version: str) -> None:
    client = LegacyStdioClient(noisily(site), site.data / "stdio.log")
    client.begin_speaking(version)
    [echo] = [tool for tool in client.result(client.ask("tools/list"))["tools"] if tool["name"] == "echo"]
    assert "inputSchema" in echo
    assert wire.text(client.result(client.call("echo", text="hello"))) == "hello"
    assert client.result(client.ask("resources/subscribe", uri=COUNTER)) == {}
    told = until(client, client.call("move_counter", commit=True))
    while UPDATED not in told:  # it may arrive before or after the result
        told.append(client.receive())
    client.close()
    client.rest()
    assert client.wait() == 0


@legacy
def test_an_idle_debug_session_gets_beats_from_two_seconds_on_until_it_wants_no_more(client: LegacyStdioClient) -> None:
    asked_at = time.monotonic()
    assert client.result(client.ask("logging/setLevel", level="debug")) == {}
    heard = []
    while time.monotonic() - asked_at < IDLE:
        if (message := client.receive_within(asked_at + IDLE - time.monotonic())) is not None:
            assert message["params"] == {"level": "debug", "logger": "heartbeat", "data": {"worker": "alive"}}
            heard.append(time.monotonic() - asked_at)
    assert len(heard) >= 2
    assert heard[0] >= INTERVAL - EARLY
    quiet = client.ask("logging/setLevel", level="info")
    assert {each["method"] for each in until(client, quiet)} <= {"notifications/message"}
    assert client.receive_within(2 * INTERVAL) is None
    client.close()
    assert (client.rest(), client.wait()) == ([], 0)


@legacy
def test_a_call_that_asks_ends_with_its_client(site: Stack, client: LegacyStdioClient, tmp_path: Path) -> None:
    request_id = client.call("order", path=str(tmp_path / "lines"))
    asked = client.receive()
    assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "How many, and how large?")
    client.close()
    assert (client.rest(), client.wait()) == ([], 0)
    row = ended(site, request_id)
    assert (row.status, row.cancel_cause) == ("cancelled", "disconnect")


@pytest.mark.filterwarnings("ignore:.*(is removed|is deprecated) as of 2026-07-28")  # these features are tested here
async def test_the_official_client_lists_calls_cancels_subscribes_and_answers(site: Stack) -> None:
    server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], CONCURRENCY], env=noisily(site), cwd=ROOT)
    steps, told, logged, asked = site.data / "steps", asyncio.Queue[IncomingMessage](), [], []

    async def on_log(params: LoggingMessageNotificationParams) -> None:
        logged.append(params.level)

    async def answer(context: object, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"quantity": 2} if len(asked) == 1 else {"yes": True})

    async def heard(kind: type[IncomingMessage]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not isinstance(message := await told.get(), kind):
                pass
        return message

    async def cancelled(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("sleep_sync", {"seconds": LONG, "path": str(steps), "step": STEP}))
        await asyncio.to_thread(eventually, steps.exists, "it takes a step", PATIENCE)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(eventually, stopped, "it ends", PATIENCE)

    def stopped() -> bool:
        row = site.inspector.row(tool="sleep_sync")
        return row is not None and row.ended and (row.status, row.cancel_cause) == ("cancelled", "client")

    options = {"message_handler": told.put, "logging_callback": on_log, "elicitation_callback": answer}
    async with Client(server, mode="legacy", **options) as client:
        assert client.protocol_version == "2025-11-25"
        assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
        assert words(await client.call_tool("echo", {"text": "hello"})) == "hello"
        await client.send_ping()
        seen = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append((progress, total))

        await client.call_tool("progress", {"steps": 3, "delay": 0.05}, progress_callback=on_progress)
        assert seen == [(1, 3), (2, 3), (3, 3)]
        await cancelled(client)
        await client.subscribe_resource(COUNTER)
        await client.call_tool("move_counter", {"commit": True})
        assert (await heard(ResourceUpdatedNotification)).params.uri == COUNTER
        [content] = (await client.read_resource(COUNTER)).contents
        assert isinstance(content, TextResourceContents)
        await client.call_tool("trigger_change")
        await heard(ToolListChangedNotification)
        ordered = await client.call_tool("order", {"path": str(site.data / "lines")})
        assert words(ordered) == "17: 2 small, accept"
        await client.set_logging_level("debug")
        async with asyncio.timeout(PATIENCE):
            while len(logged) < 2:  # noqa: ASYNC110 - the callback sets no event
                await asyncio.sleep(STEP)
    assert asked == ["How many, and how large?", "2, really?"]
    assert set(logged) == {"debug"}
