"""The official Python client: it lists, calls, reads, completes, follows progress, cancels by leaving, subscribes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp_types import CallToolResult, PromptReference, TextContent, TextResourceContents

from tests.acceptance.inspector import Row
from tests.acceptance.situations import LONG, STEP
from tests.acceptance.stack import Stack
from tests.acceptance.test_disconnect import assert_cancelled, assert_stopped
from tests.acceptance.test_subscriptions import COUNTER
from tests.acceptance.waiting import eventually
from tests.acceptance.wire import VERSION

Scenario = Callable[[Client], Awaitable[None]]


def play(stack: Stack, scenario: Scenario) -> None:
    """Run the scenario against each server, with a client that finds out by itself what the server speaks."""

    async def run(port: int) -> None:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            assert client.protocol_version == VERSION
            await scenario(client)

    for server in stack.servers:
        asyncio.run(run(server.port))


def words(result: object) -> str:
    assert isinstance(result, CallToolResult)
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


def newest(stack: Stack, tool: str) -> Row | None:
    return stack.inspector.row(tool=tool)


def test_it_lists_and_calls(stack: Stack) -> None:
    async def scenario(client: Client) -> None:
        listed = await client.list_tools()
        names = [tool.name for tool in listed.tools]
        assert {"echo", "add", "sleep"} <= set(names)
        assert words(await client.call_tool("echo", {"text": "hello"})) == "hello"
        assert words(await client.call_tool("add", {"a": 1, "b": 2})) == "3"

    play(stack, scenario)


def test_it_follows_progress(stack: Stack) -> None:
    async def scenario(client: Client) -> None:
        seen: list[tuple[float, float | None]] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            assert message is not None
            assert float(message) <= time.time()
            seen.append((progress, total))

        result = await client.call_tool("progress", {"steps": 3, "delay": 0.05}, progress_callback=on_progress)
        assert words(result) == "3 steps"
        assert seen == [(1, 3), (2, 3), (3, 3)]

    play(stack, scenario)


@pytest.mark.parametrize("tool", ["sleep", "sleep_sync"])
def test_it_cancels_by_leaving(stack: Stack, tool: str, tmp_path: Path) -> None:
    stopped: list[tuple[Row, Path]] = []

    async def scenario(client: Client) -> None:
        steps = tmp_path / f"steps{len(stopped)}"
        call = asyncio.create_task(client.call_tool(tool, {"seconds": LONG, "path": str(steps), "step": STEP}))
        await asyncio.to_thread(eventually, steps.exists, "it takes a step")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        def ended() -> Row | None:
            row = newest(stack, tool)
            return row if row is not None and row.ended else None

        row = await asyncio.to_thread(eventually, ended, "it ends")
        assert row is not None
        stopped.append((row, steps))
        assert words(await client.call_tool("echo", {"text": "next"})) == "next"

    play(stack, scenario)
    for row, steps in stopped:
        assert_cancelled(row, cause="disconnect", stage=1 if tool == "sleep" else 2, actor="anonymous")
        assert_stopped(row, steps)


def test_it_subscribes(stack: Stack) -> None:
    async def scenario(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as subscription:
            await client.call_tool("trigger_change")
            async for event in subscription:
                assert isinstance(event, ToolsListChanged)
                break

    play(stack, scenario)


def test_it_reads_resources_and_hears_of_their_changes(stack: Stack) -> None:
    async def counted(client: Client) -> int:
        [content] = (await client.read_resource(COUNTER, cache_mode="bypass")).contents
        assert isinstance(content, TextResourceContents)
        return int(content.text)

    async def scenario(client: Client) -> None:
        assert COUNTER in [each.uri for each in (await client.list_resources()).resources]
        assert (await client.list_resource_templates()).resource_templates
        before = await counted(client)
        async with client.listen(resource_subscriptions=[COUNTER]) as subscription:
            await client.call_tool("move_counter", {"commit": True})
            async for event in subscription:
                assert isinstance(event, ResourceUpdated)
                assert event.uri == COUNTER
                break
        assert await counted(client) == before + 1

    play(stack, scenario)


def test_it_gets_prompts_and_completes_their_arguments(stack: Stack) -> None:
    async def scenario(client: Client) -> None:
        name = "test_prompt_with_arguments"
        assert name in [each.name for each in (await client.list_prompts()).prompts]
        found = await client.complete(PromptReference(name=name), {"name": "arg1", "value": "par"})
        assert found.completion.values == ["paris", "party"]
        [message] = (await client.get_prompt(name, {"arg1": "paris", "arg2": "b"})).messages
        assert isinstance(message.content, TextContent)
        assert "arg1='paris'" in message.content.text

    play(stack, scenario)
