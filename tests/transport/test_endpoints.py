"""Several endpoints on one site. Objects of one endpoint do not exist for the clients of another.

The same caller requests such an object and one that exists nowhere. Both responses must be equal.
"""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from mcp_app.auth.local import local_principal
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import tool_rows
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.errors import ProtocolError
from mcp_app.conf import settings
from mcp_app.execution.run import runner
from mcp_app.models import Cancellation, Request, Session
from mcp_app.prompts import prompt
from mcp_app.protocol.tasks import CAPABILITY
from mcp_app.resources import resource
from mcp_app.routing import mcp_application
from mcp_app.states import Outcome, TaskMode
from mcp_app.tools import tool
from mcp_app.transport import shutdown
from mcp_app.transport.consumers import MCPConsumer
from tests.support import stdio_client
from tests.support.asgi_client import META, Connection, call, message, post, run
from tests.support.legacy_asgi_client import Client, notification, request
from tests.support.legacy_asgi_client import call as legacy_call
from tests.support.worker import Worker, in_thread, row
from tests.transport.asker import AUTHENTICATOR, set_caller, user
from tests.transport.changes import change

pytestmark = pytest.mark.usefixtures("_declared")


ENDPOINTS: dict[str, dict[str, Any]] = {
    "public": {"PATH": "/mcp/public", "INSTRUCTIONS": "Ask away."},
    "staff": {"PATH": "/mcp/staff", "SERVER_NAME": "back-office"},
}
KNOWS = {META + "clientCapabilities": {**CAPABILITY, "elicitation": {}}}
COMPLETIONS = {"name": lambda value, context: ["a"]}


@pytest.fixture
def _declared(configure: Any) -> Iterator[None]:
    configure(ENDPOINTS=ENDPOINTS, ALLOW_ANONYMOUS=True, LOST_AFTER=60.0)
    with isolated_registries():
        for name, where in {"public": ["public"], "staff": ["staff"], "both": ["public", "staff"], "none": []}.items():
            resource(f"{name}://one", endpoints=where)(lambda: "one")
            resource(f"{name}://of/{{name}}", endpoints=where, completions=COMPLETIONS)(lambda name: name)
            prompt(name=name, endpoints=where, completions=COMPLETIONS)(lambda name="": "words")
            tool(name=name, endpoints=where)(lambda: "done")
        tool(name="unsaid")(lambda: "done")
        tool(name="job", endpoints=["public", "staff"], task=TaskMode.ALWAYS)(lambda: "done")
        yield


async def ask(endpoint: str, method: str, **params: Any) -> Any:
    """Return the response to a request at an endpoint."""
    return await (await post(message(method, meta=KNOWS, **params), path=f"/mcp/{endpoint}")).json()


async def names(endpoint: str, method: str, member: str) -> set[str]:
    listed = (await ask(endpoint, method))["result"][member]
    return {each["name"] if "uri" not in each else each["uri"] for each in listed}


async def listen(endpoint: str, **wanted: Any) -> tuple[Connection, dict[str, Any]]:
    body = message("subscriptions/listen", meta=KNOWS, notifications=wanted)
    client = await post(body, path=f"/mcp/{endpoint}")
    await client.head()
    return client, (await client.next_message())["params"]["notifications"]


def completed(**ref: str) -> dict[str, Any]:
    return {"ref": ref, "argument": {"name": "name", "value": ""}}


def uses(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("tools/call", {"name": name, "arguments": {}}),
        ("resources/read", {"uri": f"{name}://one"}),
        ("resources/read", {"uri": f"{name}://of/a"}),
        ("prompts/get", {"name": name}),
        ("completion/complete", completed(type="ref/prompt", name=name)),
        ("completion/complete", completed(type="ref/resource", uri=f"{name}://of/{{name}}")),
    ]


@pytest.mark.parametrize(("endpoint", "other"), [("public", "staff"), ("staff", "public")])
async def test_what_one_offers_is_unknown_at_the_other_and_what_says_not_where_at_each(
    endpoint: str, other: str
) -> None:
    assert await names(endpoint, "tools/list", "tools") == {endpoint, "both", "job"}
    assert await names(endpoint, "resources/list", "resources") == {f"{endpoint}://one", "both://one"}
    assert len(await names(endpoint, "resources/templates/list", "resourceTemplates")) == 1
    assert await names(endpoint, "prompts/list", "prompts") == {endpoint, "both"}
    for hidden in (other, "none", "unsaid"):
        for (method, params), (_, unknown) in zip(uses(hidden), uses("nothing"), strict=True):
            answer, expected = [await ask(endpoint, method, **each) for each in (params, unknown)]
            assert json.dumps(answer).replace(hidden, "nothing") == json.dumps(expected), method
            assert answer["error"]["code"] == -32602
    client, honoured = await listen(endpoint, resourceSubscriptions=[f"{other}://one", f"{endpoint}://one"])
    assert honoured["resourceSubscriptions"] == [f"{endpoint}://one"]
    await client.leave()
    legacy = await Client.opened(path=f"/mcp/{endpoint}")
    assert (await legacy.ask("resources/subscribe", uri=f"{other}://one"))["error"]["code"] == -32002
    assert not await in_thread(Request.objects.exists)


async def test_each_says_of_itself_what_is_its_own() -> None:
    with isolated_registries():
        prompt(name="p", endpoints=["staff"])(lambda: "words")
        public, staff = [(await ask(name, "server/discover"))["result"] for name in ENDPOINTS]
        assert "prompts" in staff["capabilities"]
        assert "prompts" not in public["capabilities"]
        assert (await ask("public", "prompts/list"))["error"]["code"] == -32601
        assert (public.get("instructions"), staff.get("instructions")) == ("Ask away.", settings.INSTRUCTIONS)
        infos = [each["_meta"][META + "serverInfo"]["name"] for each in (public, staff)]
        assert infos == [settings.SERVER_NAME, "back-office"]
        legacy = await Client(path="/mcp/staff").initialize()
        assert legacy["result"]["serverInfo"]["name"] == "back-office"


async def test_a_session_its_stream_and_its_call_are_the_endpoint_s_where_it_was_begun(worker: Worker) -> None:
    client = await Client.opened(path="/mcp/public")
    stream = await client.post(legacy_call("both", 7, token="t"))
    request_id = await worker.claim()
    await worker.report(request_id, 1)
    await stream.head()
    [first] = [await stream.next_event()]
    elsewhere = Client(session=client.session, path="/mcp/staff")
    for attempt in (
        await elsewhere.post(request("ping")),
        await elsewhere.post(notification("notifications/cancelled", requestId=7)),
        await elsewhere.get(),
        await elsewhere.get(first.id),
        await elsewhere.delete(),
    ):
        assert attempt.status == 404
    going_on = await row(request_id)
    assert (going_on.endpoint, going_on.cancel_requested_at) == ("public", None)
    assert await in_thread(lambda: [each.outcome for each in Cancellation.objects.all()]) == [Outcome.DENIED]
    assert (await in_thread(Session.objects.get)).endpoint == "public"
    await worker.finish(request_id)
    assert (await stream.events())[-1].message["result"]["content"][0]["text"] == "done"


async def test_a_task_is_found_cancelled_and_watched_where_it_was_begun_alone(worker: Worker) -> None:
    created = (await ask("public", "tools/call", name="job", arguments={}))["result"]
    task = created["taskId"]
    request_id = await worker.claim()
    for method, more in (("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", {"inputResponses": {}})):
        answer, unknown = [await ask("staff", method, taskId=each, **more) for each in (task, str(uuid4()))]
        assert (answer, answer["error"]["code"]) == (unknown, -32602)
    assert (await row(request_id)).cancel_requested_at is None
    client, honoured = await listen("staff", taskIds=[task])
    assert honoured == {}
    assert len(await client.rest()) == 1
    assert (await ask("public", "tasks/get", taskId=task))["result"]["status"] == "working"
    assert "result" in await ask("public", "tasks/cancel", taskId=task)
    assert (await row(request_id)).cancel_requested_at is not None


async def test_cursors_and_request_states_of_one_are_nothing_to_the_other(configure: Any, worker: Worker) -> None:
    configure(PAGE_SIZE=1)
    for method in ("tools/list", "prompts/list", "resources/list"):
        cursor = (await ask("public", method))["result"]["nextCursor"]
        assert "result" in await ask("public", method, cursor=cursor)
        assert (await ask("staff", method, cursor=cursor))["error"]["code"] == -32602
    client = await post(call("both", meta=KNOWS), path="/mcp/public")
    request_id = await worker.claim()
    await worker.ask(request_id, n="How many?")
    asked = (await client.json())["result"]
    answers = {"n": {"action": "accept", "content": {"n": 3}}}
    brought = {"inputResponses": answers, "requestState": asked["requestState"]}
    refused = await ask("staff", "tools/call", name="both", arguments={}, **brought)
    assert refused["error"]["code"] == -32602
    assert "params.requestState" in refused["error"]["message"]
    assert (await row(request_id)).answers == {}


async def test_changes_of_what_one_offers_are_told_there_alone() -> None:
    await in_thread(tool_rows.sync)
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    clients = {name: (await listen(name, **wanted, resourceSubscriptions=["both://one"]))[0] for name in ENDPOINTS}
    session = await (await Client.opened(path="/mcp/public")).get()
    await session.next_event()
    await in_thread(change, "staff")
    assert [(await clients["staff"].next_message())["method"] for _ in range(3)]
    await in_thread(change, "both")
    for client in clients.values():
        told = [(await client.next_message()) for _ in range(4)]
        assert [each["params"]["uri"] for each in told if "uri" in each["params"]] == ["both://one"]
    assert len({(await session.next_event()).message["method"] for _ in range(3)}) == 3
    await shutdown.drain()
    for client in clients.values():
        assert len(await client.rest()) == 1
    assert not [event for event in await session.events() if event.message]


async def test_who_is_let_in_is_each_endpoint_s_own_matter(configure: Any, worker: Worker) -> None:
    staff = {**ENDPOINTS["staff"], "AUTHENTICATOR": AUTHENTICATOR, "ALLOW_ANONYMOUS": False}
    configure(ENDPOINTS={**ENDPOINTS, "staff": {**staff, "GROUPS": ["staff"], "PERMISSIONS": ["auth.view_user"]}})
    employee = await in_thread(user, "view_user", group="staff")

    async def status(endpoint: str) -> int:
        client = await post(message("tools/list"), path=f"/mcp/{endpoint}")
        await client.head()
        return client.status

    for who, expected in ((None, 401), (await in_thread(user), 403), (employee, 200)):
        set_caller(who)
        assert [await status(name) for name in ENDPOINTS] == [200, expected]
    client = await post(call("staff"), path="/mcp/staff")
    stored = await row(await worker.claim())
    assert (stored.endpoint, stored.user_id) == ("staff", employee.user_id)
    await client.leave()
    await in_thread(lambda: User.objects.get(pk=employee.user_id).groups.clear())
    assert await status("staff") == 403


async def test_an_anonymous_caller_is_nobody_of_a_group(configure: Any) -> None:
    configure(ENDPOINTS={"staff": {"PATH": "/mcp/staff", "GROUPS": ["staff"]}}, ALLOW_ANONYMOUS=True)
    client = await post(message("tools/list"), path="/mcp/staff")
    assert (await client.json())["error"]["code"] == client.status == 401


@pytest.mark.parametrize(("endpoint", "runs"), [("public", True), ("staff", False)])
def test_a_worker_runs_a_call_of_an_endpoint_only_if_the_tool_is_offered_there(endpoint: str, runs: bool) -> None:
    nobody = Principal("tests", "1", "", "1", endpoint=endpoint)
    queued = Request(tool="public", principal_label="1", arguments={}, **nobody.columns)
    running: Any = SimpleNamespace(row=queued, context=SimpleNamespace())
    if runs:
        assert callable(runner.prepare(running))
        return
    with pytest.raises(ProtocolError, match="Unknown tool: public"):
        runner.prepare(running)


async def test_a_client_on_the_standard_streams_has_the_one_that_it_was_started_for() -> None:
    async with stdio_client.connect(endpoint="staff") as client:
        listed = (await client.ask("tools/list"))["result"]["tools"]
        assert {each["name"] for each in listed} == {"staff", "both", "job"}
        opened = await client.open_session()
        assert opened["serverInfo"]["name"] == "back-office"
        called = await client.ask_in_session("tools/call", name="public", arguments={})
        assert called["error"]["message"] == "Unknown tool: public."


def test_a_site_serves_each_where_the_settings_say_and_nothing_beside(configure: Any) -> None:
    async def scenario() -> None:
        for path, expected in (("/mcp/public/", 200), ("/mcp", 418), ("/mcp/", 418), ("/mcp/staff/x", 418)):
            client = await post(message("tools/list"), path=path)
            await client.head()
            assert client.status == expected

    run(scenario())
    with pytest.raises(ImproperlyConfigured, match="without a path"):
        mcp_application(None, "/mcp")
    with pytest.raises(ImproperlyConfigured, match="has no 'nowhere'"):
        MCPConsumer.as_asgi(endpoint="nowhere")
    configure(ENDPOINTS={"a": {"PATH": "/mcp"}, "b": {"PATH": "/mcp/"}})
    with pytest.raises(ImproperlyConfigured, match="the same PATH"):
        mcp_application(None)


def test_a_site_that_names_none_has_one_and_offers_there_what_says_not_where(configure: Any) -> None:
    configure(ENDPOINTS={})

    async def scenario() -> None:
        listed = (await (await post(message("tools/list"))).json())["result"]["tools"]
        assert [each["name"] for each in listed] == ["unsaid"]

    run(scenario())
    assert local_principal().endpoint == "default"
