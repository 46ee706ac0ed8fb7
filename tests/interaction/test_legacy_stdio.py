"""2025-03-26, 2025-06-18 and 2025-11-25 over stdio, by section, and versioning "Backward
Compatibility".
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from mcp_app.catalogue import changes, tool_rows
from mcp_app.models import Request
from mcp_app.states import Cause, Status
from mcp_app.transport import shutdown
from mcp_app.transport.subscriptions.stream import QUIET_SECONDS
from tests.interaction.revisions import run_each
from tests.support.legacy_asgi_client import call, notification, request
from tests.support.stdio_client import Client, connect
from tests.support.worker import Worker, eventually, in_thread, row

pytestmark = pytest.mark.usefixtures("offered")

NOTES = "notes://today"
FORMS = {"elicitation": {"form": {}}}


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker.at_work() as worker:
        yield worker


@asynccontextmanager
async def opened(version: str, **capabilities: Any) -> AsyncIterator[Client]:
    async with connect() as client:
        answer = await client.open_session(version, **capabilities)
        assert answer["protocolVersion"] == version
        yield client


async def result_of(client: Client, version: str, method: str, **params: Any) -> Any:
    """Return the result.

    Check that the revision's own types accept it and that it has nothing modern.
    """
    result = (await client.ask_in_session(method, **params))["result"]
    validate_server_result(method, version, result)
    assert not result.keys() & {"resultType", "ttlMs", "cacheScope", "_meta"}
    return result


def test_lifecycle_initialize_negotiates_the_revision_asked_for_with_its_capabilities() -> None:
    async def scenario(version: str) -> None:
        async with connect() as client:
            answer = await client.open_session(version, roots={})
            validate_server_result("initialize", version, answer)
            assert answer["protocolVersion"] == version
            assert answer["capabilities"] == {
                "tools": {"listChanged": True},
                "logging": {},
                "resources": {"listChanged": True, "subscribe": True},
                "prompts": {"listChanged": True},
                "completions": {},
            }

    run_each(scenario)


@pytest.mark.parametrize("asked", ["2024-11-05", "2026-07-28", "1.0"])
async def test_lifecycle_another_version_is_answered_with_the_newest_that_has_a_handshake(asked: str) -> None:
    async with connect() as client:
        assert (await client.open_session(asked))["protocolVersion"] == "2025-11-25"


async def test_versioning_a_client_of_both_eras_finds_the_modern_one_by_its_probe() -> None:
    async with connect() as client:
        assert (await client.ask("server/discover"))["result"]["supportedVersions"] == ["2026-07-28"]
        old_probe = await client.ask_in_session("server/discover")
        assert old_probe["error"]["code"] not in (-32020, -32021, -32022)
        assert (await client.open_session("2025-06-18"))["protocolVersion"] == "2025-06-18"


def test_ping_is_answered_with_nothing() -> None:
    async def scenario(version: str) -> None:
        async with opened(version) as client:
            assert await result_of(client, version, "ping") == {}

    run_each(scenario)


def test_what_is_offered_is_in_the_words_of_the_revision() -> None:
    async def scenario(version: str) -> None:
        async with opened(version) as client:
            [tool] = (await result_of(client, version, "tools/list"))["tools"]
            assert tool["name"] == "work"
            resources = (await result_of(client, version, "resources/list"))["resources"]
            [today] = [each for each in resources if each["uri"] == NOTES]
            assert ("title" in today) == (version != "2025-03-26")
            assert "resourceTemplates" in await result_of(client, version, "resources/templates/list")
            read = await result_of(client, version, "resources/read", uri=NOTES)
            assert read["contents"][0]["text"] == "# Today"
            assert len((await result_of(client, version, "prompts/list"))["prompts"]) == 2
            got = await result_of(client, version, "prompts/get", name="review", arguments={"code": "1"})
            assert got["messages"][0]["content"]["text"] == "Review this python: 1"
            asked = {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": "t"}}
            completed = await result_of(client, version, "completion/complete", **asked)
            assert completed["completion"]["values"] == ["tuesday", "thursday"]
            unknown = await client.ask_in_session("resources/read", uri="notes://nowhere")
            assert unknown["error"]["code"] == -32002

    run_each(scenario)


@pytest.mark.parametrize("token", ["t", 0])
def test_progress_is_told_with_the_clients_token_before_the_result(worker: Worker, token: Any) -> None:
    async def scenario(version: str) -> None:
        async with opened(version) as client:
            await client.send(call(request_id="c", token=token))
            request_id = await worker.claim()
            await worker.report(request_id, 1)
            told = await client.receive()
            assert told == notification("notifications/progress", progressToken=token, progress=1)
            await worker.finish(request_id)
            answer = await client.receive()
            assert answer == {"jsonrpc": "2.0", "id": "c", "result": {"content": [{"type": "text", "text": "done"}]}}

    run_each(scenario)


def test_logging_the_level_steers_the_calls_that_follow(worker: Worker) -> None:
    async def scenario(version: str) -> None:
        async with opened(version) as client:
            assert (await client.ask_in_session("logging/setLevel", level="loud"))["error"]["code"] == -32602
            assert await result_of(client, version, "logging/setLevel", level="warning") == {}
            await client.send(call())
            request_id = await worker.claim()
            await worker.log(request_id, "info", "error")
            assert (await client.receive())["params"]["data"] == "error"
            await worker.finish(request_id)
            assert "result" in await client.receive()

    run_each(scenario)


def test_logging_an_idle_debug_session_hears_the_heartbeat_until_it_wants_no_more(
    worker: Worker, configure: Callable[..., None]
) -> None:
    configure(VITAL_SIGNS_INTERVAL=QUIET_SECONDS / 2)

    async def scenario(version: str) -> None:
        async with opened(version) as client:
            assert await result_of(client, version, "logging/setLevel", level="debug") == {}
            for _ in range(2):
                beat = await client.receive()
                assert (beat["method"], beat["params"]["level"]) == ("notifications/message", "debug")
                assert (beat["params"]["logger"], beat["params"]["data"]) == ("heartbeat", {"worker": "alive"})
            await client.send(request("logging/setLevel", "quiet", level="info"))
            while (await client.receive()).get("id") != "quiet":
                pass
            # Notifications are sent only after a longer pause than there is between two heartbeats.
            await in_thread(tool_rows.touch)
            assert await client.receive() == notification("notifications/tools/list_changed")

    run_each(scenario)


def test_resources_changes_are_told_while_they_are_watched() -> None:
    async def scenario(version: str) -> None:
        async with opened(version) as client:
            assert await result_of(client, version, "resources/subscribe", uri=NOTES) == {}
            await in_thread(changes.touch, changes.resource_subject(NOTES))
            assert await client.receive() == notification("notifications/resources/updated", uri=NOTES)
            assert await result_of(client, version, "resources/unsubscribe", uri=NOTES) == {}
            await in_thread(changes.touch, changes.resource_subject(NOTES))
            await in_thread(changes.touch, changes.PROMPTS)
            assert await client.receive() == notification("notifications/prompts/list_changed")
            await in_thread(tool_rows.touch)
            assert await client.receive() == notification("notifications/tools/list_changed")

    run_each(scenario)


async def test_resources_a_session_watches_a_bounded_number_and_only_what_it_may_read(
    configure: Callable[..., None],
) -> None:
    configure(MAX_RESOURCE_SUBSCRIPTIONS=1)
    async with opened("2025-11-25") as client:
        unknown = await client.ask_in_session("resources/subscribe", uri="notes://nowhere")
        assert unknown["error"]["code"] == -32002
        for _ in range(2):
            assert await result_of(client, "2025-11-25", "resources/subscribe", uri=NOTES) == {}
        too_many = await client.ask_in_session("resources/subscribe", uri="image://dot")
        assert too_many["error"]["code"] == -32602


def test_cancellation_stops_the_call_which_gets_no_response(worker: Worker) -> None:
    async def scenario(version: str) -> None:
        async with opened(version) as client:
            await client.send(call(request_id=7, token="t"))
            request_id = await worker.claim()
            await client.cancel("7")
            await client.cancel(7, reason="enough")
            await eventually(Request.objects.filter(pk=request_id, cancel_requested_at__isnull=False).exists)
            stopping = await row(request_id)
            assert (stopping.cancel_cause, stopping.cancel_reason) == (Cause.CLIENT, "enough")
            await worker.finish(request_id, Status.CANCELLED)
            assert await result_of(client, version, "ping") == {}

    run_each(scenario)


def test_elicitation_is_a_request_that_a_line_answers(worker: Worker) -> None:
    async def scenario(version: str) -> None:
        async with opened(version, **FORMS) as client:
            await client.send(call(request_id=1))
            request_id = await worker.claim()
            assert await worker.ask(request_id, size="How many?") == Status.INPUT_REQUIRED
            asked = await client.receive()
            assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "How many?")
            answer = {"action": "accept", "content": {"n": 3}}
            await client.send({"jsonrpc": "2.0", "id": "of nobody", "result": answer})
            await client.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
            assert await worker.claim() == request_id
            assert (await row(request_id)).answers == {"size": answer}
            await client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
            await worker.finish(request_id)
            assert (await client.receive())["id"] == 1

    run_each(scenario, ("2025-06-18", "2025-11-25"))


async def test_elicitation_of_a_call_that_its_client_cancels_is_taken_back(worker: Worker) -> None:
    async with opened("2025-11-25", **FORMS) as client:
        await client.send(call(request_id=1))
        request_id = await worker.claim()
        await worker.ask(request_id, size="How many?")
        asked = await client.receive()
        await client.cancel(1)
        taken_back = await client.receive()
        assert (taken_back["method"], taken_back["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
        assert (await row(request_id)).cancel_cause == Cause.CLIENT
        await client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
        assert await result_of(client, "2025-11-25", "ping") == {}


async def test_elicitation_of_a_call_that_a_shutdown_stops_is_taken_back_before_its_result(worker: Worker) -> None:
    async with opened("2025-11-25", **FORMS) as client:
        await client.send(call(request_id=1))
        await worker.ask(await worker.claim(), size="How many?")
        asked = await client.receive()
        await shutdown.drain()
        assert (await client.receive())["params"]["requestId"] == asked["id"]
        answer = await client.receive()
        assert (answer["id"], answer["result"]["isError"]) == (1, True)


async def test_elicitation_of_another_connection_is_not_answered_here(worker: Worker) -> None:
    async with opened("2025-11-25", **FORMS) as client, opened("2025-11-25", **FORMS) as other:
        await client.send(call(request_id=1))
        request_id = await worker.claim()
        await worker.ask(request_id, size="How many?")
        asked = await client.receive()
        await other.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
        await other.leave()
        assert (await row(request_id)).status == Status.INPUT_REQUIRED
        await client.leave()
        assert (await row(request_id)).status == Status.CANCELLED
