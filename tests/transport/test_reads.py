"""Authors' code in the server process runs off the event loop, with limits, and delays no shutdown."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from mcp_app.models import Tool
from mcp_app.resources import InputRequired, resource
from mcp_app.transport import server
from mcp_app.transport.process import author_threads
from tests.support.asgi_client import PATIENCE, ask, message, post


class Gate:
    """Blocks a resource's function. Counts the calls that wait and that ever did."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.threads: set[str] = set()

    def pass_through(self) -> str:
        self.threads.add(threading.current_thread().name)
        self.arrived.release()
        assert self.opened.wait(PATIENCE * 3)
        return "passed"

    async def await_arrivals(self, count: int) -> None:
        for _ in range(count):
            assert await asyncio.to_thread(self.arrived.acquire, timeout=PATIENCE)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    resource("gate://{number}")(lambda number: gate.pass_through())
    yield gate
    gate.opened.set()


def offer(function: Callable[..., Any]) -> None:
    resource("x://a")(function)


async def read(uri: str = "x://a") -> Any:
    return await ask("resources/read", uri=uri)


async def test_a_slow_resource_keeps_nobody_waiting_and_few_run_at_once(gate: Gate, configure) -> None:
    configure(READ_THREADS=2)
    slow = [asyncio.create_task(read(f"gate://{number}")) for number in range(5)]
    await gate.await_arrivals(2)
    assert "result" in await ask("tools/list")
    assert not gate.arrived.acquire(blocking=False)
    gate.opened.set()
    answers = await asyncio.gather(*slow)
    assert [each["result"]["contents"][0]["text"] for each in answers] == ["passed"] * 5
    assert len(gate.threads) == 2


async def test_one_that_takes_too_long_is_answered_and_holds_up_no_ending(gate: Gate, configure, monkeypatch) -> None:
    configure(READ_TIME_LIMIT=0.05)
    monkeypatch.setattr(author_threads, "ENDING_SECONDS", 0.05)
    answer = await read("gate://1")
    assert answer["error"]["code"] == -32603
    assert "longer" in answer["error"]["message"]
    assert not gate.opened.is_set()


async def test_an_async_resource_that_takes_too_long_is_cancelled(configure) -> None:
    configure(READ_TIME_LIMIT=1.0)
    cancelled = threading.Event()

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    offer(endless)
    assert (await read())["error"]["code"] == -32603
    assert await asyncio.to_thread(cancelled.wait, PATIENCE)


async def test_one_that_never_began_does_not_begin_when_its_client_has_left(gate: Gate, configure) -> None:
    configure(READ_THREADS=1)
    first = asyncio.create_task(read("gate://1"))
    await gate.await_arrivals(1)
    leaving = await post(message("resources/read", uri="gate://2"))
    while len(server.current().admission.reads.open) < 2:  # noqa: ASYNC110 - admission sends no notification
        await asyncio.sleep(0.01)
    await leaving.leave()
    gate.opened.set()
    await first
    assert not gate.arrived.acquire(blocking=False)


async def test_one_request_too_many_is_refused(gate: Gate, configure) -> None:
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=1)
    first = asyncio.create_task(read("gate://1"))
    await gate.await_arrivals(1)
    refused = await post(message("resources/read", uri="gate://2"))
    assert (await refused.json())["error"]["code"] == 429
    assert refused.status == 429
    gate.opened.set()
    assert "result" in await first


async def test_the_database_may_be_asked_by_plain_and_by_async_functions() -> None:
    def plain() -> int:
        return Tool.objects.count()

    async def by_awaiting() -> int:
        return await Tool.objects.acount()

    offer(plain)
    resource("x://b")(by_awaiting)
    for uri in ("x://a", "x://b"):
        assert (await read(uri))["result"]["contents"][0]["text"] == "0"


async def test_a_transaction_that_is_left_open_does_not_reach_the_next(configure, caplog) -> None:
    configure(READ_THREADS=1)
    states: list[bool] = []

    def careless() -> str:
        states.append(connection.in_atomic_block)
        transaction.atomic().__enter__()
        return ""

    offer(careless)
    for _ in range(2):
        assert "result" in await read()
    assert states == [False, False]
    assert all(fact in caplog.text for fact in ("resource", "transaction open"))


async def test_a_failure_is_logged_and_not_told(caplog) -> None:
    def broken() -> str:
        raise ZeroDivisionError("secret")

    offer(broken)
    error = (await read())["error"]
    assert error["code"] == -32603
    assert "secret" not in error["message"]
    assert "secret" in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, InputRequired])
async def test_one_that_wants_to_end_the_process_ends_only_itself(error: type[BaseException], caplog) -> None:
    def leaving() -> str:
        raise error

    offer(leaving)
    assert (await read())["error"]["code"] == -32603
    assert f"{error.__name__} was raised" in caplog.text


async def test_completions_come_no_oftener_than_they_may(configure) -> None:
    configure(COMPLETION_BURST=3, COMPLETION_RATE=0.0001)
    resource("x://{a}", completions={"a": lambda value, context: [value]})(lambda a: a)
    ref = {"type": "ref/resource", "uri": "x://{a}"}
    answers = [await ask("completion/complete", ref=ref, argument={"name": "a", "value": "v"}) for _ in range(4)]
    assert ["result" in each for each in answers] == [True, True, True, False]
    assert answers[3]["error"]["code"] == 429
