"""Tools joined with their rows: the tools on offer, pages of them, and change versions."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections, transaction
from django.test import override_settings
from pytest_django import DjangoAssertNumQueries

from mcp_app import databases
from mcp_app.auth.principal import ANONYMOUS
from mcp_app.catalogue import catalogue, paging, tool_rows
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.errors import InvalidCursor
from mcp_app.catalogue.registry import tool
from mcp_app.conf import settings
from mcp_app.models import Tool
from mcp_app.states import CancelPolicy
from tests.transport.asker import user

pytestmark = pytest.mark.django_db(databases="__all__")


def register(*names: str, **options: Any) -> None:
    for name in names:

        @tool(name=name, **options)
        def function(text: str = "") -> str: ...


def names() -> list[str]:
    return [each.name for each in catalogue.offered(ANONYMOUS)]


@pytest.fixture
def pages_of_two() -> Iterator[None]:
    with override_settings(MCP={"DATABASE": settings.DATABASE, "PAGE_SIZE": 2}):
        yield


def all_pages() -> list[list[str]]:
    found, cursor = [], None
    while True:
        page = catalogue.page(cursor, ANONYMOUS)
        found.append([each["name"] for each in page.items])
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_tools_are_offered_by_name_before_and_after_their_rows_exist() -> None:
    register("b", "a", "B")
    assert names() == ["B", "a", "b"]
    tool_rows.sync()
    assert names() == ["B", "a", "b"]


def test_wire_object_has_what_the_code_says() -> None:
    register("a", title="The A", description="Does a.")
    offered = catalogue.find("a", ANONYMOUS)
    assert offered is not None
    assert offered.wire() == {
        "name": "a",
        "title": "The A",
        "description": "Does a.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "default": ""}},
            "additionalProperties": False,
        },
    }


def test_rows_override_the_code_and_the_code_the_settings() -> None:
    register("plain")
    register("own", cancel=CancelPolicy.INTERRUPT, cooperative_grace=0, hard_grace=2, time_limit=9, queue="q")
    tool_rows.sync()
    plain, own = catalogue.find("plain", ANONYMOUS), catalogue.find("own", ANONYMOUS)
    assert plain is not None
    assert own is not None
    assert (plain.cancel_policy, plain.cooperative_grace, plain.hard_grace, plain.time_limit, plain.queue) == (
        CancelPolicy.KILL,
        settings.COOPERATIVE_GRACE,
        settings.HARD_GRACE,
        settings.DEFAULT_TIME_LIMIT,
        settings.QUEUE,
    )
    assert (own.cancel_policy, own.cooperative_grace, own.hard_grace, own.time_limit, own.queue) == (
        CancelPolicy.INTERRUPT,
        0,
        2,
        9,
        "q",
    )
    Tool.objects.filter(pk="own").update(
        title="T",
        description="D",
        cancel_policy="cooperative",
        cooperative_grace=3,
        hard_grace=0,
        time_limit=1,
        queue="r",
    )
    own = catalogue.find("own", ANONYMOUS)
    assert own is not None
    assert (own.title, own.description, own.queue) == ("T", "D", "r")
    assert (own.cancel_policy, own.cooperative_grace, own.hard_grace, own.time_limit) == (
        CancelPolicy.COOPERATIVE,
        3,
        0,
        1,
    )


def test_empty_override_is_none() -> None:
    register("a", title="The A", description="Does a.")
    tool_rows.sync()
    Tool.objects.update(title="", description="", cancel_policy="", queue="")
    offered = catalogue.find("a", ANONYMOUS)
    assert offered is not None
    assert (offered.title, offered.description, offered.queue) == ("The A", "Does a.", settings.QUEUE)


def test_disabled_tool_is_neither_listed_nor_found() -> None:
    register("a", "b")
    tool_rows.sync()
    before = tool_rows.version()

    assert tool_rows.set_enabled("a", False) is True
    assert names() == ["b"]
    assert catalogue.find("a", ANONYMOUS) is None
    assert tool_rows.set_enabled("a", False) is False
    assert tool_rows.version() == before + 1
    tool_rows.set_enabled("a", True)
    assert names() == ["a", "b"]


def test_a_change_of_several_rows_is_one_and_names_those_that_it_changed() -> None:
    register("a", "b", "c")
    tool_rows.sync()
    tool_rows.change(["b"], title="T", queue="q")
    before = tool_rows.version()
    assert sorted(tool_rows.change(["a", "b", "c", "nobody"], title="T", queue="q")) == ["a", "c"]
    assert tool_rows.version() == before + 1
    assert (
        tool_rows.change(["a", "b"], title="T", queue="q")
        == tool_rows.change(["a"])
        == tool_rows.change([], title="U")
        == []
    )
    assert tool_rows.change(["a"], title=None) == ["a"]
    assert tool_rows.version() == before + 2


def test_only_a_row_without_code_is_forgotten() -> None:
    register("a")
    Tool.objects.create(name="old", location="x", registered=False)
    tool_rows.sync()
    before = tool_rows.version()
    assert tool_rows.forget("a") is tool_rows.forget("nobody") is False
    assert tool_rows.version() == before
    assert tool_rows.forget("old") is True
    assert set(Tool.objects.values_list("pk", flat=True)) == {"a"}
    assert tool_rows.version() == before + 1


def test_unknown_tool_is_not_found_without_a_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0, using=settings.DATABASE):
        assert catalogue.find("nobody", ANONYMOUS) is None


def test_finding_and_listing_take_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    register("a", "b", "c")
    tool_rows.sync()
    for ask in (lambda: catalogue.find("a", ANONYMOUS), lambda: catalogue.page(None, ANONYMOUS)):
        with django_assert_num_queries(1, using=settings.DATABASE):
            ask()


def test_what_a_list_asks_of_its_callers_groups_costs_no_more_for_many_tools(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    register("a", "b", "c", groups=["editors", "admins"])
    register("d", groups=["auditors"])
    ada = user(group="editors")
    rows_too = User.objects.db == settings.DATABASE  # the tools' rows, if they are in the users' database
    with django_assert_num_queries(2 + rows_too, using=User.objects.db) as asked:  # the user, and the groups
        assert [each.name for each in catalogue.offered(ada)] == ["a", "b", "c"]
    assert "auth_group" in asked.captured_queries[1]["sql"]


def test_row_whose_code_went_away_is_kept_marked_and_comes_back() -> None:
    register("a", "b")
    tool_rows.sync()
    Tool.objects.filter(pk="b").update(title="kept")
    with isolated_registries():
        register("a")
        tool_rows.sync()
        assert names() == ["a"]
        assert Tool.objects.get(pk="b").registered is False
    assert names() == ["a"]
    tool_rows.sync()
    assert names() == ["a", "b"]
    assert Tool.objects.get(pk="b").title == "kept"


def test_sync_bumps_the_version_only_for_a_change() -> None:
    register("a")
    tool_rows.sync()
    first = tool_rows.version()
    tool_rows.sync()
    assert tool_rows.version() == first > 0
    register("b")
    tool_rows.sync()
    assert tool_rows.version() == first + 1


def test_change_that_is_rolled_back_notifies_nobody() -> None:
    register("a")
    tool_rows.sync()
    before = tool_rows.version()
    with databases.atomic():
        tool_rows.set_enabled("a", False)
        assert names() == []
        transaction.set_rollback(True, using=settings.DATABASE)
    assert tool_rows.version() == before
    assert names() == ["a"]


@pytest.mark.usefixtures("pages_of_two")
def test_pages_hold_every_tool_once_in_order() -> None:
    assert all_pages() == [[]]
    register("a", "b")
    assert all_pages() == [["a", "b"]]
    register("e", "d", "c")
    assert all_pages() == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.usefixtures("pages_of_two")
def test_pages_neither_repeat_nor_skip_what_stays_when_the_list_changes() -> None:
    register("b", "c", "d", "e")
    tool_rows.sync()
    first = catalogue.page(None, ANONYMOUS)
    register("a", "f")
    tool_rows.set_enabled("c", False)
    second = catalogue.page(first.next_cursor, ANONYMOUS)

    assert [each["name"] for each in [*first.items, *second.items]] == ["b", "c", "d", "e"]
    assert [each["name"] for each in catalogue.page(second.next_cursor, ANONYMOUS).items] == ["f"]


@pytest.mark.fault("G15")
@pytest.mark.usefixtures("pages_of_two")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda cursor: "",
        lambda cursor: "b",
        lambda cursor: cursor[:-1],
        lambda cursor: cursor + "x",
        lambda cursor: cursor * 100,
        lambda cursor: "\ud800",
        lambda cursor: 7,
        lambda cursor: paging.issue("resources", "b"),
    ],
)
def test_cursor_that_this_list_did_not_issue_is_refused(spoil: Callable[[str], Any]) -> None:
    register("a", "b", "c")
    cursor = catalogue.page(None, ANONYMOUS).next_cursor
    assert cursor is not None
    with pytest.raises(InvalidCursor):
        catalogue.page(spoil(cursor), ANONYMOUS)


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_two_processes_that_sync_at_once_make_one_change() -> None:
    register(*(f"tool-{number}" for number in range(20)))
    start, errors, before = threading.Barrier(2), [], tool_rows.version()

    def sync() -> None:
        try:
            start.wait(timeout=10)
            tool_rows.sync()
        except Exception as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=sync) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not errors
    assert Tool.objects.count() == 20
    assert tool_rows.version() == before + 1


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_bump_is_seen_once_its_transaction_is_committed() -> None:
    seen: list[int] = []

    def look() -> None:
        seen.append(tool_rows.version())
        connections.close_all()

    register("a")
    tool_rows.sync()
    with transaction.atomic(using=settings.DATABASE):
        tool_rows.touch()
        databases.on_commit(lambda: threading_run(look))
    assert seen == [2]


def threading_run(function: Callable[[], None]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(timeout=10)
