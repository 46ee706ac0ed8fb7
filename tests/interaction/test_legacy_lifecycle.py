"""2025-11-25 and earlier, basic/lifecycle, and the novelties in each changelog.

Sessions themselves are tested in `tests/transport/test_legacy_sessions.py`.
"""

import json
from datetime import timedelta
from typing import Any

import mcp_types
import pytest
from django.utils import timezone

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Request, Session
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from mcp_app.protocol.tasks import CAPABILITY
from mcp_app.states import Status, TaskMode
from mcp_app.tools import tool
from tests.interaction.revisions import run_each
from tests.support.legacy_asgi_client import Client, call, request
from tests.support.stdio_client import connect
from tests.support.worker import Worker, in_thread, row

pytestmark = pytest.mark.usefixtures("_tools")


OLD, MIDDLE, LATEST = LEGACY_REVISIONS
ICON = mcp_types.Icon(src="https://example.com/i.png", mime_type="image/png")
LINK = {
    "type": "resource_link",
    "name": "notes",
    "uri": "notes://today",
    "title": "Notes",
    "icons": [{"src": "data:,"}],
}
METHODS_OF_OTHER_REVISIONS = (
    *("server/discover", "subscriptions/listen"),
    *("tasks/get", "tasks/update", "tasks/cancel", "tasks/list", "tasks/result"),
)


@pytest.fixture
def _tools(_empty: None, configure) -> None:
    configure(SSE_AFTER=10.0, KEEP_ALIVE=10.0)

    @tool(title="A job", icons=[ICON], task=TaskMode.ALWAYS)
    def job() -> dict[str, int]:
        """Work, as a task where clients know tasks."""
        return {}


async def test_version_negotiation_a_session_s_requests_name_a_version_that_is_served() -> None:
    client = await Client.opened()
    for version in ("2024-11-05", "2099-01-01", "x"):
        wrong = {"MCP-Protocol-Version": version}
        refused = [
            await client.post(request("ping"), wrong),
            await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, wrong),
            await client.post({"jsonrpc": "2.0", "id": 1, "result": {}}, wrong),
            await client.get(headers=wrong),
        ]
        assert [each.status for each in refused] == [400] * 4
    client.version = "2099-01-01"
    assert (await client.delete()).status == 400
    client.version = LATEST
    assert (await client.ask("ping"))["result"] == {}


async def test_version_negotiation_what_was_negotiated_holds_where_no_header_says_it() -> None:
    for version in LEGACY_REVISIONS:
        client = await Client.opened(version)
        client.version = ""
        [listed] = (await client.ask("tools/list"))["result"]["tools"]
        assert ("title" in listed, "icons" in listed) == (version != OLD, version == LATEST)


async def test_initialization_its_session_is_named_whatever_form_the_answer_has() -> None:
    info = {"name": "test", "version": "1"}
    body = request("initialize", "a", protocolVersion=LATEST, capabilities={}, clientInfo=info)
    answer = await Client("").post(body, accept="text/event-stream")
    assert answer.headers["content-type"] == "text/event-stream"
    [event] = [each for each in await answer.events() if each.message]
    assert event.message["result"]["protocolVersion"] == LATEST
    client = Client(session=answer.headers["mcp-session-id"])
    assert (await client.ask("ping"))["result"] == {}


def test_operation_only_what_the_revision_has_is_served() -> None:
    async def scenario(version: str) -> None:
        client = await Client.opened(version)
        for method in METHODS_OF_OTHER_REVISIONS:
            answer = await client.post(request(method, taskId="t", notifications={}))
            assert (answer.status, json.loads(await answer.body())["error"]["code"]) == (200, -32601)
        async with connect() as piped:
            await piped.open_session(version)
            for method in METHODS_OF_OTHER_REVISIONS:
                assert (await piped.ask_in_session(method, taskId="t"))["error"]["code"] == -32601

    run_each(scenario)


def test_capability_negotiation_nothing_makes_a_task(worker: Worker) -> None:
    async def scenario(version: str) -> None:
        client = Client(version, capabilities={**CAPABILITY, "tasks": {"requests": {"tools": {"call": {}}}}})
        answer = await client.initialize()
        assert not answer["result"]["capabilities"].keys() & {"extensions", "tasks", "experimental"}
        assert "execution" not in (await client.ask("tools/list"))["result"]["tools"][0]
        body = call("job")
        body["params"]["task"] = {"ttl": 60_000}
        called = await client.post(body)
        request_id = await worker.claim()
        await worker.finish(request_id)
        assert (await called.json())["result"] == {"content": [{"type": "text", "text": "done"}]}
        assert (await row(request_id)).task_handle is None

    run_each(scenario)


def test_changelog_results_hold_nothing_newer_than_the_session(worker: Worker) -> None:
    as_it_is = {"n": 1}
    shown = {
        OLD: (None, {"type": "text", "text": "notes: notes://today"}),
        MIDDLE: (as_it_is, {name: value for name, value in LINK.items() if name != "icons"}),
        LATEST: (as_it_is, LINK),
    }

    async def scenario(version: str) -> None:
        structured, link = shown[version]
        client = await Client.opened(version)
        for value, expected in ((as_it_is, structured), ([1], None)):
            called = await client.post(call("job"))
            result = {"content": [LINK], "structuredContent": value}
            done = {"worker": worker.identity.boot_id, "result": result}
            await in_thread(transitions.finish, await worker.claim(), Status.COMPLETED, **done)
            answer = (await called.json())["result"]
            assert answer["content"] == [link]
            assert answer.get("structuredContent") == expected

    run_each(scenario)


def by_header(connection: Any) -> Principal:
    return Principal("site", connection.headers["Authorization"], "", "")


async def test_session_management_one_caller_s_sessions_are_no_burden_to_others(configure) -> None:
    configure(MAX_SESSIONS_PER_PRINCIPAL=2, ALLOW_ANONYMOUS=False, AUTHENTICATOR=f"{__name__}.by_header")

    async def begin(who: str) -> str:
        info = {"name": "test", "version": "1"}
        body = request("initialize", 0, protocolVersion=LATEST, capabilities={}, clientInfo=info)
        return (await Client("").post(body, {"Authorization": who})).headers["mcp-session-id"]

    async def pinged(who: str, session: str) -> int:
        return (await Client(session=session).post(request("ping"), {"Authorization": who})).status

    ada = await begin("ada")
    bobs = [await begin("bob")]
    await in_thread(Session.objects.filter(pk=ada).update, seen_at=timezone.now() - timedelta(minutes=1))
    bobs += [await begin("bob") for _ in range(2)]
    assert await pinged("ada", ada) == 200
    assert [await pinged("bob", session) for session in bobs] == [404, 200, 200]
    assert [await pinged("bob", ada), await pinged("ada", bobs[2])] == [404, 404]
    assert not await in_thread(Request.objects.exists)
