"""A tool is tried from its page: a real call, its user's own, for who may, within every limit; else nothing is left."""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from uuid import UUID

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.core.cache import cache
from django.db import OperationalError, connections
from django.test import Client
from pydantic import Field

from mcp_app import databases
from mcp_app.auth.authentication import principal_of
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import rows as tool_rows
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.conf import settings as app_settings
from mcp_app.execution.context import ToolContext
from mcp_app.lifecycle import broker
from mcp_app.models import Request
from mcp_app.states import Status
from mcp_app.testing.client import Client as MCPClient
from tests.admin.conftest import CANCEL, SEE, SEE_PAYLOAD
from tests.admin.hostile import REVERSED, SCRIPT
from tests.admin.pages import words
from tests.lifecycle import brokers, rows
from tests.lifecycle.racing import race

pytestmark = pytest.mark.django_db(databases="__all__")

LogIn = Callable[..., Client]
TOOLS = "/admin/mcp_app/tool/"
CALL = "call_tool"
SEE_TOOLS = "view_tool"
MAY = (CALL, SEE_TOOLS, SEE)
SECRET = "hush-4711"


class Recorder:
    """Stands where the broker is, and keeps what it is told."""

    def __init__(self) -> None:
        self.sent: list[UUID] = []
        self.was_atomic = False

    def send_task(self, name: str, **options: Any) -> None:
        self.was_atomic |= databases.connection().in_atomic_block
        self.sent.append(UUID(options["args"][0]))

    def broadcast(self, command: str, arguments: dict[str, list[str]]) -> None: ...


@pytest.fixture(autouse=True)
def _tools() -> Iterator[None]:
    cache.clear()
    with isolated_registries():

        @tool
        def search(
            pattern: Annotated[str, Field(max_length=5)], ctx: ToolContext, limit: int = 10, part: str = "all"
        ) -> str:
            """Search <script>alert(1)</script> for a pattern."""
            ctx.progress(1, 2, "half")
            return f"{pattern} {limit} {part}"

        @tool(rate="1/h")
        def rare() -> str:
            """May be called once an hour."""
            return ""

        @tool(concurrency=1)
        def alone() -> str:
            """One at a time."""
            return ""

        @tool(permissions=["auth.view_user"], groups=["staff"])
        def guarded() -> str:
            """For some."""
            return ""

        @tool(requires={"elicitation": {}})
        def asks() -> str:
            """Asks its user."""
            return ""

        @tool(endpoints=["public", "staff"])
        def both() -> str:
            """At two endpoints."""
            return ""

        tool_rows.sync()
        yield


@pytest.fixture
def queue() -> Iterator[Recorder]:
    recorder = Recorder()
    with broker.replaced_by(recorder):
        yield recorder


@pytest.fixture
def tester(log_in: LogIn) -> Client:
    return log_in(*MAY, name="tester")


def address(name: str = "search") -> str:
    return f"{TOOLS}{name}/try/"


def run(client: Client, name: str = "search", **filled: Any) -> Any:
    """Press the button of the form, filled in so."""
    fields = {f"argument/{argument}": value for argument, value in filled.items()}
    return send(client, name, {"_mode": "fields", **fields})


def send(client: Client, name: str, form: dict[str, str], **headers: str) -> Any:
    """What a page sends that is loaded for it."""
    return client.post(address(name), {"_page": loaded(client, name), **form}, **headers)


def loaded(client: Client, name: str = "search") -> str:
    """What the form of a page is named by that is loaded now; nothing where there is none."""
    found = re.search(r'name="_page" value="([^"]+)"', client.get(address(name)).content.decode())
    return found[1] if found else ""


def refused(client: Client, name: str = "search", **filled: Any) -> str:
    """What the form says of a call that is not made; nothing is left of it."""
    before = Request.objects.count()
    shown = words(run(client, name, **filled))
    assert Request.objects.count() == before
    assert not LogEntry.objects.exists()
    return shown


def called() -> Request:
    return Request.objects.get()


def test_the_form_runs_a_tool_and_leads_to_the_page_of_its_request(tester: Client, mcp_client: MCPClient) -> None:
    response = run(tester, pattern="axle", limit="3", part="all")
    row = called()
    assert response.url == f"/admin/mcp_app/request/{row.pk}/change/"
    assert row.status == Status.QUEUED
    mcp_client._worker.run_queued()
    row.refresh_from_db()
    assert row.status == Status.COMPLETED
    assert row.result["content"] == [{"type": "text", "text": "axle 3 all"}]
    assert "search" in words(tester.get(response.url))


def test_who_called_is_who_would_have_with_the_site_s_own_login(tester: Client, queue: Recorder) -> None:
    form = {"_mode": "fields", "argument/pattern": "a"}
    send(tester, "search", form, REMOTE_ADDR="192.0.2.7", HTTP_ACCEPT_LANGUAGE="de")
    row = called()
    assert Principal.of(row) == principal_of(User.objects.get(username="tester"))
    assert (row.scopes, row.remote_address, row.language) == (None, "192.0.2.7", "de")
    assert (row.server, row.session, row.client_capabilities, row.parent) == (None, None, {}, None)
    assert queue.sent == [row.pk]


def test_the_history_of_the_tool_tells_who_tried_it(tester: Client, queue: Recorder) -> None:
    run(tester, pattern="a")
    assert f"Tried: request {called().pk}." in words(tester.get(f"{TOOLS}search/history/"))


def test_a_page_that_is_sent_twice_has_called_once(tester: Client, queue: Recorder) -> None:
    form = {"_mode": "fields", "argument/pattern": "a", "_page": loaded(tester)}
    first, second = (tester.post(address(), form) for _ in range(2))
    row = called()
    assert first.url == second.url == f"/admin/mcp_app/request/{row.pk}/change/"
    assert queue.sent == [row.pk]
    assert "This is the call that the page has made before." in words(tester.get(second.url))
    assert LogEntry.objects.count() == 1


def test_who_may_not_see_requests_calls_once_as_well(log_in: LogIn, queue: Recorder) -> None:
    browser = log_in(CALL, SEE_TOOLS)
    form = {"_mode": "fields", "argument/pattern": "a", "_page": loaded(browser)}
    assert {browser.post(address(), form).url for _ in range(2)} == {address()}
    assert queue.sent == [called().pk]


def test_filled_in_otherwise_or_loaded_anew_it_is_another_call(tester: Client, queue: Recorder) -> None:
    form = {"_mode": "fields", "argument/pattern": "a", "_page": loaded(tester)}
    for changed in ({}, {"argument/pattern": "b"}, {"_page": loaded(tester)}):
        assert tester.post(address(), form | changed).status_code == 302
    assert len(queue.sent) == Request.objects.count() == 3


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_page_that_is_sent_twice_at_one_moment_has_called_once(tester: Client, queue: Recorder) -> None:
    form = {"_mode": "fields", "_page": loaded(tester, "alone")}
    answers = race(lambda: tester.post(address("alone"), form).url, lambda: tester.post(address("alone"), form).url)
    assert set(answers) == {f"/admin/mcp_app/request/{called().pk}/change/"}
    assert set(queue.sent) == {called().pk}


def test_a_form_that_this_user_was_not_shown_for_this_tool_calls_nothing(
    tester: Client, log_in: LogIn, queue: Recorder
) -> None:
    others = loaded(log_in(*MAY, name="other"))
    for page in ("", "x", others, loaded(tester, "rare"), loaded(tester)[:-1]):
        form = {"_mode": "fields", "argument/pattern": "a", "_page": page}
        assert "This page is not the one that was shown to you" in words(tester.post(address(), form))
    assert not Request.objects.exists()


RIGHTS = {
    "nothing of it": ((SEE, SEE_TOOLS), {}, False),
    "no tools": ((SEE, CALL), {}, False),
    "enough": ((SEE_TOOLS, CALL), {}, True),
    "changes tools": (("change_tool", CALL), {}, True),
    "everything": ((), {"is_superuser": True}, True),
}


@pytest.mark.parametrize("has", RIGHTS)
def test_who_may_not_finds_no_way_to_call(has: str, log_in: LogIn, queue: Recorder) -> None:
    permissions, fields, may = RIGHTS[has]
    browser = log_in(*permissions, **fields)
    page = browser.get(f"{TOOLS}search/change/")
    assert (f'href="{address()}"' in page.content.decode()) == may
    assert browser.get(address()).status_code == (200 if may else 403)
    assert run(browser, pattern="a").status_code == (302 if may else 403)
    assert Request.objects.count() == len(queue.sent) == may


@pytest.mark.parametrize(("grants", "may"), [((), False), (("view_user",), False), (("view_user", "staff"), True)])
def test_a_tool_is_called_with_the_rights_of_its_user_as_a_caller(
    grants: tuple[str, ...], may: bool, log_in: LogIn, queue: Recorder
) -> None:
    browser = log_in(*MAY, name="tester")
    user = User.objects.get(username="tester")
    if "view_user" in grants:
        user.user_permissions.add(Permission.objects.get(codename="view_user"))
    if "staff" in grants:
        user.groups.add(Group.objects.create(name="staff"))
    assert ("Try it" in words(browser.get(f"{TOOLS}guarded/change/"))) == may
    assert run(browser, "guarded").status_code == (302 if may else 403)
    assert Request.objects.count() == may


def test_what_is_disabled_or_gone_or_unknown_is_not_called(log_in: LogIn, queue: Recorder) -> None:
    root = log_in(is_superuser=True)
    tool_rows.change(["search"], enabled=False)
    tool_rows.change(["rare"], registered=False)
    for name, status in (("search", 403), ("rare", 403), ("nothing", 404)):
        assert root.get(address(name)).status_code == run(root, name).status_code == status
    assert "Try it" not in words(root.get(f"{TOOLS}search/change/"))
    assert not Request.objects.exists()


def test_only_a_post_with_django_s_token_calls(tester: Client, queue: Recorder) -> None:
    for method in ("get", "head", "put", "delete", "patch"):
        getattr(tester, method)(f"{address()}?argument/pattern=a&_mode=fields")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get(username="tester"))
    assert run(strict, pattern="a").status_code == 403
    assert not Request.objects.exists()
    token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', strict.get(address()).content.decode())
    assert token is not None
    filled = {"_mode": "fields", "argument/pattern": "a", "csrfmiddlewaretoken": token[1], "_page": loaded(strict)}
    assert strict.post(address(), filled).status_code == 302


@pytest.mark.parametrize(
    ("filled", "told"),
    [
        ({}, "This field is required."),
        ({"pattern": "a", "limit": "many"}, "Enter a whole number."),
        ({"pattern": "too long"}, "String should have at most 5 characters"),
        ({"pattern": "a", "gone": "x"}, "The tool has changed since this page was opened"),
    ],
)
def test_what_is_not_valid_is_told_beside_its_field_and_leaves_nothing(
    filled: dict[str, str], told: str, tester: Client, queue: Recorder
) -> None:
    assert told in refused(tester, **filled)
    assert queue.sent == []


def test_all_arguments_are_filled_in_as_json(tester: Client, queue: Recorder) -> None:
    for given in ("{", '{"pattern": 1}', '{"pattern": "a", "more": 1}', "[]"):
        assert "Please correct the error below." in words(send(tester, "search", {"_mode": "json", "json": given}))
    assert not Request.objects.exists()
    assert send(tester, "search", {"_mode": "json", "json": '{"pattern": ""}'}).status_code == 302
    assert called().arguments == {"pattern": ""}


def test_what_was_filled_in_stays_when_it_is_filled_in_on_in_the_other_way(tester: Client, queue: Recorder) -> None:
    def switch(to: str, **fields: str) -> Any:
        return tester.post(address(), {"_show": to, **fields}).context["form"]

    as_json = switch("json", _mode="fields", **{"argument/limit": "3", "argument/part": "all"})
    assert as_json["json"].value() == '{\n  "limit": 3,\n  "part": "all"\n}'
    fields = switch("fields", _mode="json", json='{"pattern": "a", "limit": 4, "part": "b"}')
    assert [fields[f"argument/{name}"].value() for name in ("pattern", "limit", "part")] == ["a", "4", "b"]
    stays = switch("fields", _mode="json", json='{"more": 1}')
    assert stays["json"].value() == '{"more": 1}'
    assert "cannot show all" in str(stays.non_field_errors())
    wrong = switch("json", _mode="fields", **{"argument/limit": "many"})
    assert wrong["argument/limit"].value() == "many"
    assert not Request.objects.exists()


def test_a_tool_that_asks_is_refused_before_it_is_called(tester: Client, queue: Recorder) -> None:
    said = "This tool needs a client that can be asked (elicitation), which the admin is not"
    shown = tester.get(address("asks"))
    assert said in words(shown)
    assert b"Run it" not in shown.content
    assert said in refused(tester, "asks")


def test_limits_hold_as_for_any_caller(tester: Client, queue: Recorder, configure: Any) -> None:
    assert run(tester, "rare").status_code == run(tester, "alone").status_code == 302
    LogEntry.objects.all().delete()
    assert "You call this tool too often" in refused(tester, "rare")
    assert "Too many calls of this tool of yours" in refused(tester, "alone")
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=2)
    assert "Too many calls of yours are open" in refused(tester, pattern="a")
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=3, MAX_QUEUED_REQUESTS=2)
    assert "As many calls as may wait for a worker" in refused(tester, pattern="a")
    assert len(queue.sent) == 2


def test_of_several_endpoints_the_user_chooses_among_those_that_let_them_in(
    log_in: LogIn, queue: Recorder, configure: Any
) -> None:
    browser = log_in(*MAY, name="tester")
    configure(ENDPOINTS={"public": {"PATH": "/a"}, "staff": {"PATH": "/b", "GROUPS": ["staff"]}})
    assert run(browser, "search").status_code == 403, "it is at the endpoint default, which there is not"
    assert "Endpoint" not in words(browser.get(address("both")))
    run(browser, "both")
    assert called().endpoint == "public"
    Request.objects.all().delete()
    User.objects.get(username="tester").groups.add(Group.objects.create(name="staff"))
    assert "Endpoint" in words(browser.get(address("both")))
    assert "This field is required." in words(run(browser, "both"))
    assert "Select a valid choice" in words(send(browser, "both", {"_mode": "fields", "endpoint": "x"}))
    send(browser, "both", {"_mode": "fields", "endpoint": "staff"})
    assert called().endpoint == "staff"


@pytest.mark.parametrize("port", [brokers.refusing_port, brokers.silent_port], ids=["refusing", "silent"])
def test_a_broker_that_is_away_is_told_and_nothing_is_left_to_run(port: Any, tester: Client, configure: Any) -> None:
    configure(PUBLISH_TIMEOUT=0.4)
    with port() as number, brokers.celery_on(brokers.URLS["amqp"].format(port=number)):
        assert "The task queue is not reachable; try again in a moment." in words(run(tester, pattern="a"))
    row = called()
    assert (row.status, row.error["cause"]) == (Status.FAILED, "broker")


def test_a_database_that_is_away_is_told_and_nothing_is_sent(tester: Client, queue: Recorder) -> None:
    def away(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('INSERT INTO "mcp_app_request"'):
            raise OperationalError("database is locked")
        return execute(sql, *rest)

    with databases.connection().execute_wrapper(away):
        assert "The call was not stored: the database is busy or away." in refused(tester, pattern="a")
    assert queue.sent == []


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_its_row_is_committed_before_its_message_goes_out(
    tester: Client, queue: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections[app_settings.DATABASE].settings_dict, "ATOMIC_REQUESTS", True)
    assert run(tester, pattern="a").status_code == 302
    assert not queue.was_atomic


def test_who_may_not_see_requests_is_told_its_id_and_comes_back_to_the_form(log_in: LogIn, queue: Recorder) -> None:
    browser = log_in(CALL, SEE_TOOLS)
    assert "You lack the permission to see requests" in words(browser.get(address()))
    response = run(browser, pattern="a")
    assert response.url == address()
    assert f"The call has begun, as request {called().pk}." in words(browser.get(response.url))


def test_the_page_says_what_it_does_and_what_stops_it(log_in: LogIn) -> None:
    shown = words(log_in(*MAY, CANCEL).get(address()))
    for said in (
        "This is a real call: a worker runs the tool, in the name of grace",
        "Closing the browser does not cancel it",
        "is cancelled on the page that comes next",
        "stopped after 60 min 0 s" if app_settings.DEFAULT_TIME_LIMIT < 3600 else "stopped after 1 h 0 min",
    ):
        assert said in shown
    assert "You lack the permission to cancel" in words(log_in(*MAY, name="other").get(address()))


def hide(kind: str, tool_name: str, value: Any) -> Any:
    return {name: "***" if SECRET in str(each) else each for name, each in value.items()}


def test_its_arguments_are_shown_and_kept_as_any_request_s(log_in: LogIn, queue: Recorder, configure: Any) -> None:
    browser = log_in(*MAY)
    run(browser, pattern="axle")
    page = f"/admin/mcp_app/request/{called().pk}/change/"
    assert "axle" not in words(browser.get(page))
    assert "axle" in words(log_in(SEE, SEE_PAYLOAD, name="auditor").get(page))
    Request.objects.all().delete()
    configure(REDACT=f"{__name__}.hide")
    run(browser, pattern="a", part=SECRET)
    row = called()
    assert (row.arguments["part"], row.original("arguments")["part"]) == ("***", SECRET)


def test_an_administrator_s_and_an_author_s_words_are_inert(log_in: LogIn) -> None:
    tool_rows.change(["search"], title=SCRIPT, description=SCRIPT + REVERSED)
    content = log_in(*MAY).get(address()).content.decode()
    assert SCRIPT not in content
    assert "\u202e" not in content


def test_nobody_else_s_calls_are_counted(tester: Client, queue: Recorder) -> None:
    rows.queued(tool="alone")
    assert run(tester, "alone").status_code == 302
