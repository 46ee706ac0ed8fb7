"""The channel of stdio: its rejections and limits, and methods that are served before the site is ready."""

import asyncio
from typing import Any

import pytest

from mcp_app.auth.local import local_principal
from mcp_app.auth.principal import Principal
from mcp_app.states import Cause
from mcp_app.transport.stdio import lines
from mcp_app.transport.stdio.requests import NotReadyError
from tests.support.asgi_client import META, call, message
from tests.support.stdio_client import connect
from tests.support.worker import Worker, row

PIPE_BYTES = 64 * 1024


@pytest.mark.parametrize(
    ("sent", "code", "request_id"),
    [
        (b"{bad\n", -32700, None),
        (b"\xff\n", -32700, None),
        (b"[1]\n", -32600, None),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, -32600, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, -32600, 1),
        ({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}, -32602, 1),
        (message("server/discover", meta={META + "protocolVersion": "v999"}), -32022, 1),
        (message("server/discover", meta={META + "clientCapabilities": None}), -32602, 1),
        (message("unheard/of"), -32601, 1),
        (message("tools/call"), -32602, 1),
    ],
)
async def test_what_is_refused_is_answered_and_the_channel_goes_on(sent: Any, code: int, request_id: Any) -> None:
    async with connect() as client:
        await client.send(sent)
        refusal = await client.receive()
        assert (refusal["error"]["code"], refusal.get("id")) == (code, request_id)
        assert "result" in await client.ask("server/discover")


async def test_a_message_that_is_too_long_is_refused_and_skipped(configure) -> None:
    configure(MAX_BODY_BYTES=PIPE_BYTES)
    async with connect() as client:
        await client.send(b"x" * (3 * PIPE_BYTES) + b"\n", message("server/discover", 2))
        refusal = await client.receive()
        assert "65536 bytes" in refusal["error"]["message"]
        assert "id" not in refusal
        assert (await client.receive())["id"] == 2


async def test_blank_lines_and_carriage_returns_are_no_messages() -> None:
    async with connect() as client:
        await client.send(b"\n \r\n", b'{"jsonrpc":"2.0","method":"notifications/unheard"}\r\n')
        assert "result" in await client.ask("server/discover")


async def test_the_id_of_an_open_request_is_refused_and_free_again_afterwards(worker: Worker) -> None:
    async with connect() as client:
        await client.send(call(request_id=1))
        request_id = await worker.claim()
        assert (await client.ask("server/discover", 1))["error"]["code"] == -32600
        await worker.finish(request_id)
        assert (await client.receive())["result"]["resultType"] == "complete"
        assert "result" in await client.ask("server/discover", 1)


async def test_discover_is_answered_before_the_site_is_ready_and_the_rest_afterwards() -> None:
    caller: asyncio.Future[Principal] = asyncio.get_running_loop().create_future()
    async with connect(caller) as client:
        await client.send(message("tools/list", "listed"))
        assert "result" in await client.ask("server/discover")
        caller.set_result(local_principal())
        answer = await client.receive()
        assert (answer["id"], "tools" in answer["result"]) == ("listed", True)


async def test_a_site_that_cannot_serve_says_so() -> None:
    caller: asyncio.Future[Principal] = asyncio.get_running_loop().create_future()
    caller.set_exception(NotReadyError("Not today."))
    async with connect(caller) as client:
        assert (await client.ask("tools/list"))["error"]["message"] == "Not today."


async def test_a_client_that_reads_late_gets_everything(configure) -> None:
    configure(MAX_UNSENT_BYTES=1000)
    async with connect() as client:
        await client.send(*(message("server/discover", number) for number in range(300)))
        assert {(await client.receive())["id"] for _ in range(300)} == set(range(300))


@pytest.mark.fault("E1")
async def test_a_client_that_does_not_read_is_gone_and_its_work_is_stopped(
    worker: Worker, configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(MAX_UNSENT_BYTES=1000, STALL_TIMEOUT=0.2)
    monkeypatch.setattr(lines, "FLUSH_SECONDS", 0.2)
    async with connect() as client:
        await client.send(call(request_id="call"))
        request_id = await worker.claim()
        await client.send(*(message("server/discover", number) for number in range(600)))
        await client.ended()
        assert (await row(request_id)).cancel_cause == Cause.DISCONNECT
