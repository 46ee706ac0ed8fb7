"""Tools that need a permission or group are hidden from other callers. A missing scope is challenged."""

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.models import Request
from tests.support.asgi_client import Connection, call, message, post, run
from tests.support.worker import Worker, in_thread, row
from tests.transport.asker import AUTHENTICATOR, caller_with_scopes, set_caller, user

pytestmark = pytest.mark.usefixtures("_tools")


@pytest.fixture
def _tools(configure: Any) -> Iterator[None]:
    configure(ALLOW_ANONYMOUS=True, AUTHENTICATOR=AUTHENTICATOR)
    with isolated_registries():

        @tool
        def everybodys() -> str:
            return "done"

        @tool(permissions=["auth.view_user", "auth.add_user"])
        def permitted() -> str:
            return "done"

        @tool(groups=["editors", "admins"])
        def grouped() -> str:
            return "done"

        @tool(scopes=["files:read", "files:write"])
        def scoped() -> str:
            return "done"

        yield


async def listed() -> list[str]:
    answer = await (await post(message("tools/list"))).json()
    return [each["name"] for each in answer["result"]["tools"]]


async def refused(name: str) -> tuple[Connection, dict[str, Any]]:
    client = await post(call(name))
    error: dict[str, Any] = (await client.json())["error"]
    return client, error


HIDDEN = {"permitted", "grouped"}
LACKS_SCOPE = 'error="insufficient_scope", '


@pytest.mark.fault("G6")
@pytest.mark.parametrize(
    ("principal", "seen"),
    [
        (lambda: None, set()),
        (lambda: Principal(issuer="partners", subject="7", client_id="", label="7"), set()),
        (lambda: user(), set()),
        (lambda: user("view_user"), set()),
        (lambda: user("view_user", "add_user"), {"permitted"}),
        (lambda: user(group="editors"), {"grouped"}),
        (lambda: user(group="readers"), set()),
        (lambda: user(is_superuser=True), HIDDEN),
        (lambda: user("view_user", "add_user", is_active=False), set()),
    ],
    ids=["anonymous", "no user", "plain", "one of two", "both", "group", "other group", "superuser", "inactive"],
)
async def test_G6_a_tool_is_hidden_from_who_lacks_its_permission_or_group_and_unknown_on_call(
    principal: Any, seen: set[str]
) -> None:
    set_caller(await in_thread(principal))
    assert set(await listed()) == {"everybodys", "scoped"} | seen
    for hidden in HIDDEN - seen:
        client, error = await refused(hidden)
        unknown_client, unknown = await refused("nothing")
        assert (client.status, error["code"]) == (unknown_client.status, unknown["code"]) == (200, -32602)
        assert error["message"] == unknown["message"].replace("nothing", hidden)
    assert not await in_thread(Request.objects.exists)


@pytest.mark.fault("G6")
@pytest.mark.parametrize(
    ("principal", "status", "said"),
    [(None, 401, ""), (caller_with_scopes(), 403, LACKS_SCOPE), (caller_with_scopes("files:read"), 403, LACKS_SCOPE)],
    ids=["no token", "none", "one"],
)
async def test_G6_a_token_without_the_scope_sees_the_tool_and_is_challenged_with_all_it_takes(
    principal: Principal | None, status: int, said: str
) -> None:
    set_caller(principal)
    assert "scoped" in await listed()
    client, error = await refused("scoped")
    assert (client.status, error["code"]) == (status, status)
    assert client.headers["www-authenticate"] == f'Bearer {said}scope="files:read files:write"'
    assert not await in_thread(Request.objects.exists)


@pytest.mark.parametrize(
    "principal",
    [
        caller_with_scopes("files:read", "files:write", "more"),
        Principal(issuer="a", subject="b", client_id="", label="c"),
    ],
    ids=["given", "no token"],
)
def test_a_token_with_the_scopes_and_a_caller_without_a_token_may_call(principal: Principal, worker: Worker) -> None:
    set_caller(principal)

    async def scenario() -> None:
        client = await post(call("scoped"))
        await worker.finish(await worker.claim())
        assert "result" in await client.json()

    run(scenario())


async def test_a_broader_scope_has_the_narrower_ones_that_the_settings_say(configure: Any, worker: Worker) -> None:
    configure(IMPLIED_SCOPES={"all": ["files:write"], "files:write": ["files:read"]})
    set_caller(caller_with_scopes("files:read"))
    assert (await refused("scoped"))[0].status == 403
    set_caller(caller_with_scopes("all"))
    client = await post(call("scoped"))
    await worker.finish(await worker.claim())
    assert "result" in await client.json()


async def test_a_call_that_was_answered_goes_on_with_what_the_token_that_answered_was_given_for(worker: Worker) -> None:
    set_caller(caller_with_scopes("files:read", "files:write"))
    client = await post(call("everybodys", meta={"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}))
    request_id = await worker.claim()
    await worker.ask(request_id, n="How many?")
    asked = (await client.json())["result"]
    set_caller(caller_with_scopes("files:read"))
    brought = {"inputResponses": {"n": {"action": "accept", "content": {"n": 3}}}}
    again = message("tools/call", name="everybodys", arguments={}, requestState=asked["requestState"], **brought)
    client = await post(again)
    await worker.claim()
    assert (await row(request_id)).scopes == ["files:read"]
    await worker.finish(request_id)
    assert "result" in await client.json()
