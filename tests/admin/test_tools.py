"""Tools in the admin: permissions to change them, rejected values, and notifications of changes."""

import html
import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages.storage.base import Message
from django.test import Client

from mcp_app.auth.principal import ANONYMOUS
from mcp_app.catalogue import catalogue, tool_rows
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.lifecycle.liveness import processes, wakeups
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.models import Tool
from mcp_app.states import CancelPolicy, ProcessRole
from tests.admin.pages import words
from tests.support.asgi_client import call, message, post
from tests.support.worker import in_thread
from tests.transport.test_listening import listen_to_tools

pytestmark = [pytest.mark.usefixtures("_tools"), pytest.mark.django_db(databases="__all__")]
committed = pytest.mark.django_db(databases="__all__", transaction=True)

LogIn = Callable[..., Client]
LIST = "/admin/mcp_app/tool/"
EMPTY = dict.fromkeys(
    ("title", "description", "queue", "time_limit", "cancel_policy", "cooperative_grace", "hard_grace"), ""
)
PATIENCE = 10.0


@pytest.fixture
def _tools() -> Iterator[None]:
    with isolated_registries():

        @tool(title="Search", queue="fast", time_limit=9, cooperative_grace=2, hard_grace=4)
        def search(pattern: str) -> str:
            """Search <script>alert(1)</script> for a pattern."""
            return pattern

        @tool(cancel=CancelPolicy.COOPERATIVE)
        def rename(old: str, new: str) -> str:
            """Rename a symbol."""
            return old

        tool_rows.sync()
        yield


@pytest.fixture
def manager(log_in: LogIn) -> Client:
    return log_in("view_tool", "change_tool")


def page(name: str) -> str:
    return f"{LIST}{name}/change/"


def save(client: Client, name: str = "search", *, enabled: bool = True, **values: object):
    return client.post(page(name), {**EMPTY, **({"enabled": "on"} if enabled else {}), **values})


def act(client: Client, action: str, *names: str):
    return client.post(LIST, {"action": action, "_selected_action": names, "index": "0"}, follow=True)


def notices(response: Any) -> list[Message]:
    """Return the messages at the top of a page of the admin."""
    return list(response.context["messages"])


def now(name: str = "search") -> catalogue.OfferedTool:
    offered = catalogue.find(name, ANONYMOUS)
    assert offered is not None
    return offered


def test_the_list_shows_what_code_and_overrides_come_to(manager: Client) -> None:
    Tool.objects.create(name="old", location="away.mcp_tools.old", registered=False)
    tool_rows.change(["search"], cancel_policy="interrupt", title="Find")
    shown = words(manager.get(LIST))
    here = "tests.admin.test_tools._tools.<locals>."
    assert f"search registered Find interrupt (override) fast 9 s {here}search" in shown
    assert f"rename registered – cooperative only mcp 3600 s {here}rename" in shown
    assert "old code gone – – – – away.mcp_tools.old" in shown


def test_who_may_view_changes_nothing(log_in: LogIn) -> None:
    viewer = log_in("view_tool")
    before = tool_rows.version()
    assert "search" in words(viewer.get(LIST))
    assert "Save" not in words(viewer.get(page("search")))
    assert save(viewer, enabled=False).status_code == 403
    act(viewer, "disable", "search")
    assert tool_rows.version() == before
    assert now()


def test_who_may_do_neither_sees_nothing(log_in: LogIn) -> None:
    nobody = log_in("view_cancellation")
    assert nobody.get(LIST).status_code == nobody.get(page("search")).status_code == 403


def test_nobody_adds_a_tool_or_deletes_one_that_has_code(log_in: LogIn) -> None:
    root = log_in(is_superuser=True)
    assert root.get(f"{LIST}add/").status_code == 403
    assert root.post(f"{LIST}add/", {**EMPTY, "name": "new", "location": "x"}).status_code == 403
    assert root.post(f"{LIST}search/delete/", {"post": "yes"}).status_code == 403
    act(root, "delete_selected", "search")
    assert set(Tool.objects.values_list("pk", flat=True)) == {"search", "rename"}


def test_a_tool_whose_code_has_gone_can_be_forgotten(manager: Client) -> None:
    Tool.objects.create(name="old", location="x", registered=False)
    before = tool_rows.version()
    assert "no longer exists" in words(manager.get(page("old")))
    manager.post(f"{LIST}old/delete/", {"post": "yes"})
    assert not Tool.objects.filter(pk="old").exists()
    assert tool_rows.version() == before + 1
    assert LogEntry.objects.get().is_deletion()


def test_overrides_hold_at_once_and_the_history_says_who_changed_what(manager: Client) -> None:
    before = tool_rows.version()
    values = {
        "title": "Find",
        "description": "Finds.\r\nEverything.",
        "queue": "slow",
        "time_limit": "2.5",
        "cancel_policy": "interrupt",
        "cooperative_grace": "0",
        "hard_grace": "1",
    }
    assert save(manager, **values).status_code == 302
    found = now()
    assert (found.title, found.description, found.queue, found.time_limit) == (
        "Find",
        "Finds.\nEverything.",
        "slow",
        2.5,
    )
    assert (found.cancel_policy, found.cooperative_grace, found.hard_grace) == (CancelPolicy.INTERRUPT, 0, 1)
    assert tool_rows.version() == before + 1
    entry = LogEntry.objects.get()
    change = r"\bqueue \([^()]*\bcode → slow\)"
    assert re.search(change, entry.get_change_message())
    assert re.search(change, words(manager.get(f"{LIST}search/history/")))


def test_an_emptied_field_is_as_the_code_says_again(manager: Client) -> None:
    tool_rows.change(["search"], title="Find", queue="slow", time_limit=1.0, hard_grace=0.0, cancel_policy="interrupt")
    save(manager)
    found = now()
    assert (found.title, found.queue, found.time_limit, found.hard_grace) == ("Search", "fast", 9, 4)
    assert Tool.objects.filter(pk="search", title=None, description=None, queue=None, cancel_policy=None).exists()


def test_saving_without_a_change_announces_nothing(manager: Client) -> None:
    before = tool_rows.version()
    assert save(manager).status_code == 302
    assert tool_rows.version() == before


def test_what_stands_behind_an_empty_field_is_shown_beside_it(manager: Client) -> None:
    for name, field, facts in (
        ("search", "title", ("Search", "code")),
        ("search", "queue", ("fast", "code")),
        ("search", "time_limit", ("9 s", "code")),
        ("rename", "hard_grace", ("5 s", 'MCP["HARD_GRACE"]')),
    ):
        response = manager.get(page(name))
        told = html.unescape(response.context["adminform"].form.fields[field].help_text)
        assert all(fact in told for fact in facts), told
        assert told in words(response)
    shown = words(manager.get(page("search")))
    for said in ("code: kill", "Search <script>alert(1)</script> for a pattern.", '"pattern": {'):
        assert said in shown


@pytest.mark.parametrize(
    ("field", "value", "facts"),
    [
        ("time_limit", "0", ("above 0", "at most 604800 seconds")),
        ("time_limit", "-1", ("above 0", "at most 604800 seconds")),
        ("time_limit", "604801", ("above 0", "at most 604800 seconds")),
        ("time_limit", "nan", ("a number",)),
        ("cooperative_grace", "-0.1", ("0 to 3600 seconds",)),
        ("hard_grace", "1e9", ("0 to 3600 seconds",)),
        ("hard_grace", "inf", ("a number",)),
        ("hard_grace", "1.5", ("hard grace (1.5 s)", "shorter", "cooperative grace (2 s)")),
        ("queue", "a b", ("1 to 128", "characters")),
        ("queue", "q" * 129, ("at most 128 characters",)),
        ("title", "a\x1bb", ("control characters",)),
        ("title", "a\u202eb", ("control characters",)),
        ("title", "t" * 256, ("at most 255 characters",)),
        ("description", "a\x07b", ("control characters",)),
        ("description", "d" * 10_001, ("at most 10000 characters",)),
        ("cancel_policy", "murder", ("murder",)),
    ],
)
def test_what_a_tool_could_not_run_with_is_refused(
    manager: Client, field: str, value: str, facts: tuple[str, ...]
) -> None:
    assert_refused(manager, {field: value}, field, facts)


def test_a_kill_must_not_come_before_the_interrupt(manager: Client) -> None:
    graces = ("hard grace (4 s)", "shorter", "cooperative grace (5 s)")
    assert_refused(manager, {"cooperative_grace": "5"}, "hard_grace", graces)


def assert_refused(manager: Client, values: dict[str, str], field: str, facts: tuple[str, ...]) -> None:
    """Check that a form changes nothing, and that its only error stands beside this field and tells these facts."""
    before = tool_rows.version()
    response = save(manager, **values)
    [(wrong, [told])] = response.context["adminform"].errors.items()
    assert wrong == field
    assert all(fact in told for fact in facts), told
    assert told in words(response)
    assert tool_rows.version() == before


def test_a_tool_that_nothing_else_stops_says_so(manager: Client) -> None:
    assert "own code stops" in words(manager.get(page("rename")))
    assert "own code stops" not in words(manager.get(page("search")))


def test_cutting_a_tool_that_must_not_be_cut_is_warned_of(manager: Client) -> None:
    warning = re.compile(r"\brename\b.* not be interrupted\b.*“kill”")
    assert not warning.search(words(manager.get(page("rename"))))
    response = manager.post(page("rename"), {**EMPTY, "enabled": "on", "cancel_policy": "kill"}, follow=True)
    assert [message.level_tag for message in notices(response) if warning.search(str(message))] == ["warning"]
    [shown] = re.findall(r'<p class="mcp-warning">(.*?)</p>', manager.get(page("rename")).content.decode())
    assert warning.search(shown)


def test_a_page_leads_to_the_tools_requests_and_cancellations(manager: Client) -> None:
    shown = manager.get(page("search")).content.decode()
    assert 'href="/admin/mcp_app/request/?tool=search"' in shown
    assert 'href="/admin/mcp_app/cancellation/?tool=search"' in shown


def test_several_tools_are_disabled_as_one_change(manager: Client) -> None:
    tool_rows.set_enabled("rename", False)
    before = tool_rows.version()
    [told] = map(str, notices(act(manager, "disable", "search", "rename")))
    assert re.search(r"1 tool disabled\b.*\b1 .*before", told)
    assert catalogue.offered(ANONYMOUS) == []
    assert tool_rows.version() == before + 1
    assert [entry.object_id for entry in LogEntry.objects.all()] == ["search"]
    [told] = map(str, notices(act(manager, "enable", "search", "rename")))
    assert told == "2 tools enabled."
    assert tool_rows.version() == before + 2
    [told] = map(str, notices(act(manager, "enable", "search", "rename")))
    assert re.search(r"0 tools enabled\b.*\b2 .*before", told)
    assert tool_rows.version() == before + 2


def test_what_the_code_and_the_rows_say_is_words(manager: Client) -> None:
    Tool.objects.create(name="old", location="<img src=x onerror=alert(1)>\u202e", registered=False)
    tool_rows.change(["search"], title="<script>alert(2)</script>", queue="<b>")
    for url in (LIST, page("search"), page("old"), page(quote("search"))):
        shown = manager.get(url).content.decode()
        for markup in ("<script>alert", "<img src=x", "<b>", "\u202e"):
            assert markup not in shown


@contextmanager
def server() -> Iterator[socket.socket]:
    """Yields the socket for wake-ups of a server process whose row is alive."""
    identity = Identity(ProcessRole.SERVER)
    processes.beat(identity)
    with wakeups.listening_socket(identity.boot_id.hex) as listener:
        listener.settimeout(PATIENCE)
        yield listener


@committed
def test_every_server_is_woken_by_every_change(manager: Client) -> None:
    Tool.objects.create(name="old", location="x", registered=False)
    with ExitStack() as stack:
        servers = [stack.enter_context(server()) for _ in range(2)]
        for change in (
            lambda: save(manager, title="Find"),
            lambda: act(manager, "disable", "search", "rename"),
            lambda: manager.post(f"{LIST}old/delete/", {"post": "yes"}),
        ):
            change()
            for each in servers:
                each.recv(16)


@pytest.fixture
def _anonymous_clients(configure) -> None:
    configure(ALLOW_ANONYMOUS=True, ALLOWED_HOSTS=["testserver"])


@committed
@pytest.mark.usefixtures("_anonymous_clients")
async def test_a_connected_client_hears_that_a_tool_is_disabled_and_can_call_it_no_more(manager: Client) -> None:
    async def listed() -> list[str]:
        answer = await (await post(message("tools/list"))).json()
        return [each["name"] for each in answer["result"]["tools"]]

    listener = await listen_to_tools()
    assert await listed() == ["rename", "search"]
    await in_thread(save, manager, "search", enabled=False)
    assert (await listener.next_message())["method"] == "notifications/tools/list_changed"
    assert await listed() == ["rename"]
    disabled = await (await post(call("search", pattern="x"))).json()
    unknown = await (await post(call("nobody", pattern="x"))).json()
    assert disabled["error"]["code"] == unknown["error"]["code"]
    assert json.dumps(disabled).replace("search", "nobody") == json.dumps(unknown)
    await in_thread(act, manager, "enable", "search")
    assert (await listener.next_message())["method"] == "notifications/tools/list_changed"
    assert await listed() == ["rename", "search"]
    await listener.leave()
