"""A call that comes alone is stored by the statement that asks whether it may be: what was true before, and is not any
more, holds for none."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_app.catalogue import finding, rows
from mcp_app.models import Request, Tool
from tests.transport.client import Connection, call, post, run
from tests.transport.test_load import refused
from tests.transport.worker import Worker, in_thread
from tests.transport.worker import row as stored


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For which tools their rows were read before a call was stored."""
    names: list[str] = []
    find = finding.find

    def told(name: str, *args: Any) -> Any:
        names.append(name)
        return find(name, *args)

    monkeypatch.setattr(finding, "find", told)
    return names


async def served(worker: Worker, **arguments: Any) -> Request:
    """The row of a call, once it is done."""
    client = await post(call(**arguments))
    request_id = await worker.claim()
    found = await stored(request_id)
    await worker.finish(request_id)
    assert "result" in await client.json()
    return found


async def error_of(client: Connection) -> str:
    message: str = (await client.json())["error"]["message"]
    return message


def test_a_tool_that_was_asked_about_before_is_not_asked_about_again(worker: Worker, asked: list[str]) -> None:
    async def scenario() -> None:
        await served(worker)
        asked.clear()
        first, second = await served(worker, text="one"), await served(worker, text="two")
        assert asked == []
        assert (first.arguments, second.arguments) == ({"text": "one"}, {"text": "two"})
        assert first.submitted_at <= second.submitted_at

    run(scenario())


@pytest.mark.parametrize("has_row", [True, False], ids=["a row before", "none before"])
def test_what_an_administrator_says_holds_for_the_very_next_call(worker: Worker, has_row: bool) -> None:
    async def scenario() -> None:
        if has_row:
            await in_thread(rows.sync)
        assert (await served(worker)).time_limit != 7.0
        await in_thread(rows.sync)
        await in_thread(lambda: rows.change(["work"], time_limit=7.0))
        assert (await served(worker)).time_limit == 7.0
        await in_thread(rows.set_enabled, "work", False)
        assert "Unknown tool" in await error_of(await post(call()))
        assert "Unknown tool" in await error_of(await post(call(text=5)))  # nor is it said what is wrong with the rest
        await in_thread(Tool.objects.all().delete)
        assert (await served(worker)).time_limit != 7.0

    run(scenario())


FULL = {
    "the caller has as many": ({"MAX_OPEN_REQUESTS_PER_PRINCIPAL": 1}, lambda worker: worker.claim(), 429),
    "as many wait": ({"MAX_QUEUED_REQUESTS": 1}, lambda worker: worker.receive(), 503),
}


@pytest.mark.parametrize(("limit", "step", "status"), FULL.values(), ids=FULL)
def test_there_is_room_or_none_at_the_moment_at_which_it_is_stored(
    worker: Worker, configure: Any, limit: dict[str, int], step: Callable[[Worker], Any], status: int
) -> None:
    configure(**limit)

    async def scenario() -> None:
        await served(worker)
        first = await post(call(request_id=1))
        await step(worker)
        await refused(await post(call(request_id=2), peer="192.0.2.1"), status)
        assert await in_thread(Request.objects.filter(finished_at=None).count) == 1
        await first.leave()

    run(scenario())


def test_a_tool_with_a_limit_of_its_own_is_counted_each_time(worker: Worker, configure: Any, asked: list[str]) -> None:
    configure(TOOL_CONCURRENCY=5)

    async def scenario() -> None:
        for _ in range(3):
            await served(worker)
        assert asked == ["work"] * 3

    run(scenario())
