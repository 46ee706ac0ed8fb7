"""The tools, prompts and resources of the pages are executed unchanged, then called as by a client."""

import sys
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.cache import cache
from django.urls import path

from mcp_app.catalogue.registry import registered_tools
from mcp_app.states import Stage
from mcp_app.testing.client import Client
from mcp_app.testing.outcomes import MCPError
from mcp_app.tools import TaskMode, ToolError, tool
from tests.docs.conftest import Execute
from tests.docs.pages import executed, snippet
from tests.management.findings import found


def offered(client: Client, uri: str) -> set[str]:
    """Return which of tools, prompts and the resource with this URI the caller sees."""
    found = {"tool" for _ in client.tools()} | {"prompt" for _ in client.prompts()}
    with suppress(MCPError):
        found |= {"resource" for _ in client.read(uri).contents}
    return found


def test_the_readmes_tool_reports_progress_and_is_stopped_while_it_blocks(mcp_client: Client, execute: Execute) -> None:
    execute(snippet("README.md#add-it-to-your-site:4"))
    assert mcp_client.call("wait", seconds=1).progress == [(0, 1, None)]
    stopped = mcp_client.call("wait", seconds=60, cancel_after=0.1)
    assert stopped.cancelled
    assert stopped.stage == Stage.INTERRUPT


def test_a_tool_asks_and_orders_what_was_answered(mcp_client: Client, execute: Execute) -> None:
    taken: list[str] = []
    execute(
        snippet("how-to/asking.md#asking-the-user"),
        reserve=lambda: taken.append("one") or 17,
        place=lambda number, quantity: f"{number}: {quantity}",
    )
    mcp_client.answer("order", {"quantity": 3})
    assert mcp_client.call("order").text == "17: 3"
    assert taken == ["one"]
    mcp_client.answer("order", action="decline")
    assert mcp_client.call("order").text == "Nothing was ordered."


def test_a_prompt_asks_as_well(mcp_client: Client, execute: Execute) -> None:
    granted = {"reserve": int, "place": int}
    execute(
        snippet("how-to/asking.md#asking-the-user"), snippet("how-to/asking.md#in-prompts-and-resources"), **granted
    )
    mcp_client.answer("order", {"quantity": 3, "size": "large"})
    [message] = mcp_client.prompt("plan", about="lunch").messages
    assert message.content.text == "Plan lunch: quantity=3 size='large'"
    mcp_client.answer("order", action="decline")
    [message] = mcp_client.prompt("plan", about="lunch").messages
    assert message.content.text == "Plan lunch."


def test_a_tool_sends_its_user_to_a_page_of_the_site(
    mcp_client: Client,
    execute: Execute,
    configure: Any,
    settings: Any,
    client: Any,
    admin_user: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools, views, urls = (
        snippet("how-to/asking.md#a-page-of-the-site"),
        snippet("how-to/asking.md#a-page-of-the-site:2"),
        snippet("how-to/asking.md#a-page-of-the-site:3"),
    )
    execute(tools)
    pages = {"sign.html": "{{ message }} {{ number }}", "signed.html": "Thank you."}
    loaders = [("django.template.loaders.locmem.Loader", pages)]
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "APP_DIRS": False, "OPTIONS": {"loaders": loaders}}]
    names = executed(views, urls, urlpatterns=[], path=path)
    monkeypatch.setitem(sys.modules, "shop_urls", SimpleNamespace(urlpatterns=names["urlpatterns"]))
    settings.ROOT_URLCONF = "shop_urls"
    configure(PUBLIC_URL="https://example.com")

    def signs(asked: dict[str, Any]) -> None:
        assert asked["url"].startswith("https://example.com/contracts/7/sign/?")
        address = asked["url"].removeprefix("https://example.com")
        assert client.get(address).status_code == 302
        client.force_login(admin_user)
        assert client.get(address).content.startswith(b"Sign contract 7.")
        assert client.post(address).content == b"Thank you."

    mcp_client.force_login(admin_user)
    mcp_client.answer("signature")
    mcp_client.answer("signature", signs)
    assert mcp_client.call("sign", number=7).text == "Signed by admin."
    mcp_client.logout()
    refused = mcp_client.call("sign", number=7)
    assert refused.is_error
    assert "an account" in refused.text


def test_tools_start_others(mcp_client: Client, execute: Execute) -> None:
    execute(snippet("how-to/starting.md#tools-that-start-others"))
    tool(name="count_usages")(count_usages)
    tool(name="guess")(guess)
    tool(name="study")(study)
    assert mcp_client.call("survey", packages=["a", "bcd"]).structured == ["1", "3"]
    assert mcp_client.call("first_answer", question="easy").text == "studied"
    assert mcp_client.call("first_answer", question="hard").text == "guessed"


def count_usages(package: str) -> str:
    return str(len(package))


def guess(question: str) -> str:
    return "guessed"


def study(question: str) -> str:
    if question == "hard":
        raise ToolError("That takes years.")
    return "studied"


def test_a_tool_that_may_become_a_task_is_called(mcp_client: Client, execute: Execute) -> None:
    execute(snippet("how-to/tasks.md#tasks"))
    assert registered_tools()["reindex"].task == TaskMode.WHEN_SLOW
    assert not mcp_client.call("reindex").is_error


def test_a_card_is_not_kept(
    mcp_client: Client, execute: Execute, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    redaction = execute(snippet("how-to/redaction.md#keep-secrets-out-of-stored-calls"))
    monkeypatch.setitem(sys.modules, "shop", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "shop.redaction", SimpleNamespace(redact=redaction["redact"]))
    configure(**execute(snippet("how-to/redaction.md#keep-secrets-out-of-stored-calls:2"))["MCP"])
    tool(name="charge")(charge)
    made = mcp_client.call("charge", card="4000123412349010")
    assert (made.text, made.request.arguments) == ("16 digits", {"card": "…9010"})


def charge(card: str) -> str:
    return f"{len(card)} digits"


def test_what_a_caller_may_do_is_said_where_the_tool_is(
    mcp_client: Client, execute: Execute, django_user_model: Any
) -> None:
    from mcp_app import prompts, resources

    decorators = {"tool": tool, "resource": resources.resource, "prompt": prompts.prompt}
    execute(
        snippet("how-to/access.md#what-a-caller-may-do"),
        under="def it(number: str) -> str: return number",
        **decorators,
    )
    user: User = django_user_model.objects.create_user("ann")
    mcp_client.force_login(user, scopes=[])
    assert offered(mcp_client, "orders://7") == {"prompt"}
    with pytest.raises(MCPError) as refused:
        mcp_client.prompt("it", number="7")
    assert refused.value.code == 403

    user.groups.add(Group.objects.create(name="auditors"))
    grant(user, "shop.change_order")
    mcp_client.force_login(user, scopes=["orders:read"])
    assert offered(mcp_client, "orders://7") == {"tool", "resource", "prompt"}
    assert mcp_client.prompt("it", number="7").messages


def test_a_tool_is_only_for_staff(mcp_client: Client, execute: Execute, django_user_model: Any) -> None:
    execute(snippet("how-to/restrict-a-tool.md#only-for-staff"), snippet("how-to/restrict-a-tool.md#only-for-staff:2"))
    user: User = django_user_model.objects.create_user("ann")
    mcp_client.force_login(user)
    assert [each.name for each in mcp_client.tools()] == ["open_month"]
    refused = mcp_client.call("open_month", month=7)
    assert (refused.is_error, refused.text) == (True, "Only staff may open a month.")
    user.is_staff = True
    user.save()
    assert mcp_client.call("open_month", month=7).text == "Month 7 is open."
    user.groups.add(Group.objects.create(name="staff"))
    assert mcp_client.call("close_month", month=7).text == "Month 7 is closed."


def test_a_misspelt_permission_or_group_is_not_noticed_and_admits_only_superusers(
    mcp_client: Client, execute: Execute, admin_user: User, django_user_model: Any
) -> None:
    tool(name="misspelt", permissions=["auth.chnage_group"], groups=["stafff"])(charge)
    assert found() == []
    mcp_client.force_login(django_user_model.objects.create_user("ann"))
    assert mcp_client.tools() == []
    mcp_client.force_login(admin_user)
    assert [each.name for each in mcp_client.tools()] == ["misspelt"]


def test_a_tool_is_restricted_by_permission_and_group(
    mcp_client: Client, execute: Execute, django_user_model: Any
) -> None:
    execute(snippet("how-to/restrict-a-tool.md#by-permission-or-group"))
    user: User = django_user_model.objects.create_user("ann")
    user.groups.add(Group.objects.create(name="support"))
    mcp_client.force_login(user)
    assert mcp_client.tools() == []
    grant(user, "shop.change_order")
    assert mcp_client.call("refund", number=7).text == "Order 7 is refunded."
    user.groups.clear()
    with pytest.raises(MCPError) as refused:
        mcp_client.call("refund", number=7)
    assert refused.value.code == -32602


def test_a_tool_is_restricted_by_scope(mcp_client: Client, execute: Execute, django_user_model: Any) -> None:
    execute(snippet("how-to/restrict-a-tool.md#by-scope-of-the-token"))
    user: User = django_user_model.objects.create_user("ann")
    mcp_client.force_login(user, scopes=["orders:read"])
    assert [each.name for each in mcp_client.tools()] == ["ship"]
    with pytest.raises(MCPError) as refused:
        mcp_client.call("ship", number=7)
    assert refused.value.code == 403
    for scopes in (["orders:write"], None):
        mcp_client.force_login(user, scopes=scopes)
        assert mcp_client.call("ship", number=7).text == "Order 7 is shipped."


def test_a_tool_is_restricted_by_endpoint(mcp_client: Client, execute: Execute, configure: Any) -> None:
    configure(ENDPOINTS={"public": {"PATH": "/mcp/public"}, "staff": {"PATH": "/mcp/staff"}})
    execute(snippet("how-to/restrict-a-tool.md#by-endpoint"))
    mcp_client.endpoint = "public"
    assert mcp_client.tools() == []
    mcp_client.endpoint = "staff"
    assert mcp_client.call("restock", item="Tea").text == "Tea is on its way."


def test_a_tool_is_restricted_by_a_rule_of_its_own(
    mcp_client: Client, execute: Execute, django_user_model: Any
) -> None:
    execute(snippet("how-to/restrict-a-tool.md#by-a-rule-of-your-own"))
    user: User = django_user_model.objects.create_user("ann")
    grant(user, "shop.view_order")
    mcp_client.force_login(user)
    assert mcp_client.call("invoice", customer="ann").text == "Invoice of ann"
    refused = mcp_client.call("invoice", customer="ben")
    assert (refused.is_error, refused.text) == (True, "You may see only your own invoices.")


def grant(user: User, permission: str) -> None:
    """Grant a permission, as if the app had a model with it."""
    from django.contrib.contenttypes.models import ContentType

    app, codename = permission.split(".")
    kind, _ = ContentType.objects.get_or_create(app_label=app, model="order")
    user.user_permissions.add(Permission.objects.create(codename=codename, content_type=kind))


def test_each_endpoint_has_its_own(mcp_client: Client, execute: Execute, configure: Any) -> None:
    from mcp_app import prompts, resources

    configure(**execute(snippet("how-to/access.md#several-endpoints-on-one-site"), MCP={})["MCP"])
    decorators = {"tool": tool, "resource": resources.resource, "prompt": prompts.prompt}
    execute(
        snippet("how-to/access.md#several-endpoints-on-one-site:3"),
        under="def it(item: str) -> str: return item",
        **decorators,
    )
    mcp_client.endpoint = "public"
    assert offered(mcp_client, "stock://tea") == {"prompt"}
    mcp_client.endpoint = "staff"
    assert offered(mcp_client, "stock://tea") == {"tool", "resource", "prompt"}


def test_one_caller_calls_so_often_and_no_more(
    mcp_client: Client, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.clear()
    # A window begins at each full minute. With this clock, all of these calls are in one.
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    execute(snippet("how-to/access.md#how-often-and-how-many-at-once"), tool=tool)
    for _ in range(10):
        assert not mcp_client.call("transcribe", path="a").is_error
    with pytest.raises(MCPError) as refused:
        mcp_client.call("transcribe", path="a")
    assert refused.value.code == 429
