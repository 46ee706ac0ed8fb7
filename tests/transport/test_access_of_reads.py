"""Resources, templates and prompts that need a permission or a scope, as tools do.

Responses about a hidden and an unknown object are compared literally, because any difference would
reveal that the object exists.
"""

import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import mcp_types
import pytest
from django.contrib.auth.models import User

from mcp_app.auth.principal import Principal
from mcp_app.catalogue import audiences, tool_rows
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.input.read_context import ReadContext
from mcp_app.catalogue.registry import registered_tools
from mcp_app.lifecycle.sessions import session_streams
from mcp_app.models import Session
from mcp_app.prompts import notify_prompts_list_changed, prompt
from mcp_app.resources import notify_resource_updated, resource
from mcp_app.tools import tool
from mcp_app.transport import shutdown
from tests.support import legacy_asgi_client, stdio_client
from tests.support.asgi_client import PATIENCE, Connection, ask, message, post
from tests.support.legacy_asgi_client import Client
from tests.support.worker import eventually, in_thread
from tests.transport.asker import AUTHENTICATOR, caller_with_scopes, set_caller, user
from tests.transport.changes import change

pytestmark = pytest.mark.usefixtures("_declared")


NEEDED = ["auth.view_user"]
COMPLETIONS = {"name": lambda value, context: ["a"]}


@pytest.fixture
def _declared(configure: Any) -> Iterator[None]:
    configure(ALLOW_ANONYMOUS=True, AUTHENTICATOR=AUTHENTICATOR)
    with isolated_registries():
        for kind, access in {"open": {}, "secret": {"permissions": NEEDED}, "scoped": {"scopes": ["r", "w"]}}.items():
            resource(f"{kind}://one", **access)(lambda: "one")
            resource(f"{kind}://of/{{name}}", completions=COMPLETIONS, **access)(lambda name: name)
            prompt(name=kind, completions=COMPLETIONS, **access)(lambda name="": "words")
            tool(name=kind, **access)(lambda: "done")
        yield


def completed(**ref: str) -> dict[str, Any]:
    return {"ref": ref, "argument": {"name": "name", "value": ""}}


def uses(kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Return every request that can be made about objects of `kind`."""
    return [
        ("resources/read", {"uri": f"{kind}://one"}),
        ("resources/read", {"uri": f"{kind}://of/a"}),
        ("prompts/get", {"name": kind}),
        ("completion/complete", completed(type="ref/prompt", name=kind)),
        ("completion/complete", completed(type="ref/resource", uri=f"{kind}://of/{{name}}")),
        ("completion/complete", completed(type="ref/resource", uri=f"{kind}://of/a")),
    ]


async def listed() -> set[str]:
    """Return the kinds that have something in their list.

    Either all objects of a kind are listed, or none.
    """
    lists = {"resources": "resources", "resources/templates": "resourceTemplates", "prompts": "prompts"}
    found = []
    for method, member in lists.items():
        result = (await ask(f"{method}/list"))["result"]
        assert result["cacheScope"] == "private"
        names = [each.get("uri") or each.get("uriTemplate") or each["name"] for each in result[member]]
        found.append({name.partition(":")[0] for name in names})
    assert found[0] == found[1] == found[2]
    return found[0]


async def listen(**wanted: Any) -> tuple[Connection, dict[str, Any]]:
    client = await post(message("subscriptions/listen", notifications=wanted))
    await client.head()
    return client, (await client.next_message())["params"]["notifications"]


@pytest.mark.parametrize("may", [True, False], ids=["permitted", "not permitted"])
async def test_without_the_permission_it_is_hidden_from_lists_and_as_unknown_as_what_is_not_there(may: bool) -> None:
    set_caller(await in_thread(user, "view_user") if may else await in_thread(user))
    assert await listed() == {"open", "scoped"} | ({"secret"} if may else set())
    for (method, params), (_, unknown) in zip(uses("secret"), uses("nothing"), strict=True):
        answer, other = [await ask(method, **each) for each in (params, unknown)]
        assert ("result" in answer) is may, method
        assert may or json.dumps(answer).replace("secret", "nothing") == json.dumps(other)
    client, honoured = await listen(resourceSubscriptions=["secret://one", "nothing://one", "open://one"])
    assert honoured["resourceSubscriptions"] == [*(["secret://one"] if may else []), "open://one"]
    await client.leave()


async def test_a_resource_that_is_hidden_is_in_no_template_s_list_and_read_through_none() -> None:
    def members(_: Any) -> list[mcp_types.Resource]:
        return [mcp_types.Resource(uri=f"open://of/{name}", name=name) for name in ("a", "hidden")]

    resource("open://of/hidden", permissions=NEEDED)(lambda: "secret")
    resource("open://{folder}/{name}", members=members)(lambda folder, name: name)
    set_caller(None)
    uris = [each["uri"] for each in (await ask("resources/list"))["result"]["resources"]]
    assert "open://of/a" in uris
    assert "open://of/hidden" not in uris
    assert (await ask("resources/read", uri="open://of/hidden"))["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("principal", "status", "said"),
    [(None, 401, ""), (caller_with_scopes("r"), 403, 'error="insufficient_scope", ')],
    ids=["no token", "one of two"],
)
async def test_without_the_scope_it_is_listed_and_each_use_is_challenged_with_all_it_takes(
    principal: Principal | None, status: int, said: str
) -> None:
    set_caller(principal)

    async def refused(method: str, params: dict[str, Any]) -> None:
        client = await post(message(method, **params))
        assert (await client.json())["error"]["code"] == client.status == status, method
        assert client.headers["www-authenticate"] == f'Bearer {said}scope="r w"'

    assert await listed() == {"open", "scoped"}
    for method, params in uses("scoped"):
        await refused(method, params)
    uris = ["open://one", "scoped://one", "nothing://one"]
    await refused("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    client = await Client.opened()
    stream = await client.post(legacy_asgi_client.request("resources/subscribe", uri="scoped://one"))
    assert (stream.status, stream.headers["www-authenticate"].count("r w")) == (status, 1)


async def test_with_the_scopes_it_is_had_and_no_cache_may_give_it_to_others(settings: Any) -> None:
    settings.LANGUAGES = [("en", "English")]
    set_caller(caller_with_scopes("r", "w"))
    for method, params in uses("scoped"):
        assert "result" in await ask(method, **params), method
    assert (await ask("resources/read", uri="scoped://one"))["result"]["cacheScope"] == "private"
    assert (await ask("resources/read", uri="open://one"))["result"]["cacheScope"] == "public"


def take_permissions(principal: Principal) -> None:
    User.objects.get(pk=principal.user_id).user_permissions.clear()


LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
TOLD = {"tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"}


def method_of(told: Any) -> str:
    return str(told["method"]).removeprefix("notifications/")


async def test_who_may_no_longer_have_it_is_told_of_no_change_of_it() -> None:
    await in_thread(tool_rows.sync)
    principal = await in_thread(user, "view_user")
    set_caller(principal)
    client, _ = await listen(**LISTS, resourceSubscriptions=["secret://one", "open://one"])
    await in_thread(change, "secret")
    assert {method_of(await client.next_message()) for _ in TOLD} == TOLD
    await in_thread(take_permissions, principal)
    await in_thread(change, "secret")
    await in_thread(change, "open")
    told = [await client.next_message() for _ in TOLD]
    assert {method_of(each) for each in told} == TOLD
    assert [each["params"]["uri"] for each in told if "uri" in each["params"]] == ["open://one"]
    await in_thread(change, "secret")
    await shutdown.drain()
    assert [each.get("method") for each in await client.rest()] == [None]


async def test_a_session_is_told_of_no_change_of_what_it_may_no_longer_have() -> None:
    await in_thread(tool_rows.sync)
    principal = await in_thread(user, "view_user")
    set_caller(principal)
    client = await Client.opened()
    for uri in ("secret://one", "open://one"):
        assert (await client.ask("resources/subscribe", uri=uri))["result"] == {}
    stream = await client.get()
    await stream.next_event()
    await in_thread(change, "secret")
    assert {method_of((await stream.next_event()).message) for _ in TOLD} == TOLD
    await in_thread(take_permissions, principal)
    await in_thread(change, "secret")
    await in_thread(notify_resource_updated, "open://one")
    assert (await stream.next_event()).message["params"] == {"uri": "open://one"}
    assert (await client.ask("resources/subscribe", uri="secret://one"))["error"]["code"] == -32002


async def test_what_a_session_is_to_be_told_again_is_asked_about_first() -> None:
    """Another connection resumes the stream and leaves it while visibility is being checked."""
    await in_thread(tool_rows.sync)
    set_caller(await in_thread(user))
    asked, go_on = threading.Event(), threading.Event()

    def slowly(visit: ReadContext) -> bool:
        if listening:
            asked.set()
            assert go_on.wait(PATIENCE)
        return True

    listening = False
    resource("slow://one", available=slowly)(lambda: "one")

    def resume_and_leave() -> None:
        session, other = Session.objects.get(), uuid4()
        session_streams.claim(session.pk, other, session.stream_server or other, seen=0)
        session_streams.release(session.pk, other)

    client = await Client.opened()
    assert (await client.ask("resources/subscribe", uri="slow://one"))["result"] == {}
    stream = await client.get()
    await stream.next_event()
    await in_thread(tool_rows.touch, "secret")
    await eventually(lambda: secret() in Session.objects.get().told)  # marked as sent, but not sent
    listening = True
    await in_thread(notify_resource_updated, "slow://one")
    assert await in_thread(asked.wait, PATIENCE)
    await in_thread(resume_and_leave)
    go_on.set()
    assert (await stream.next_event()).message["params"] == {"uri": "slow://one"}
    await eventually(lambda: secret() in Session.objects.get().told)
    await client.delete()
    assert [event.message for event in await stream.events() if event.message] == []


def secret() -> str:
    """Return the subject of the tools list for callers with the permission."""
    return audiences.subject(audiences.TOOLS, registered_tools()["secret"].access)


async def test_a_client_on_the_standard_streams_is_told_of_no_change_of_what_is_hidden_from_it() -> None:
    await in_thread(tool_rows.sync)
    async with stdio_client.connect() as client:
        await client.open_session()
        await client.ask_in_session("tools/list")  # this is handled after the session has begun to listen
        await in_thread(change, "secret")
        await in_thread(notify_prompts_list_changed)
        assert method_of(await client.receive()) == "prompts/list_changed"
