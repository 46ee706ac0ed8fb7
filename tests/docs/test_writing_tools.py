"""The tools of docs/how-to/writing-tools.md are executed unchanged, then called as the page describes."""

import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from mcp_app.catalogue import registry
from mcp_app.catalogue.registry import registered_tools
from mcp_app.models import Request
from mcp_app.states import Stage
from mcp_app.testing.client import Client
from mcp_app.testing.outcomes import MCPError
from mcp_app.tools import CancelPolicy, ToolContext
from tests.docs.conftest import Execute
from tests.docs.pages import DOCS, snippets

pytestmark = pytest.mark.usefixtures("_page")


PAGE = DOCS / "how-to/writing-tools.md"
INTERNAL = {"cancel", "is_cancelled", "has_run", "has_started"}
"""Attributes of the context for the runner, not for authors."""

Names = dict[str, Any]


def options() -> set[str]:
    """Return the options of the decorator."""
    parameters = [
        *signature(registry._register).parameters.values(),
        *signature(registry._check_options).parameters.values(),
    ]
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


def methods() -> set[str]:
    """Return the attributes of the context's own class for authors."""
    return {name for name in vars(ToolContext) if not name.startswith("_")} - INTERNAL


@pytest.fixture
def page(execute: Execute) -> Names:
    """Returns the names of the page's blocks, executed as one module."""
    return execute(*snippets("how-to/writing-tools.md"))


@pytest.fixture
def _page(page: Names) -> None: ...


def test_the_first_tool_is_called_and_stays_a_function(mcp_client: Client, page: Names) -> None:
    assert mcp_client.call("greet", name="Ada").text == "Hello Ada!"
    assert page["greet"]("Ada") == "Hello Ada!"


def test_parameters_become_the_schema_that_arguments_are_held_against(mcp_client: Client) -> None:
    parcels = [{"weight": 2.5}, {"weight": 1, "size": "large"}]
    assert mcp_client.call("quote", parcels=parcels).text == "9.50 € for 2, fetched today"
    assert mcp_client.call("quote", parcels=parcels, day="2026-07-28").text.endswith("fetched 2026-07-28")
    refused = mcp_client.call("quote", parcels=[{"weight": 31}], colour="red")
    assert refused.is_error
    assert [line.partition(":")[0] for line in refused.text.splitlines()[1:]] == ["- parcels[0].weight", "- colour"]
    assert Request.objects.filter(tool="quote").count() == 2, "nothing is stored of what is refused"


def test_a_schema_of_ones_own_is_checked(mcp_client: Client) -> None:
    assert mcp_client.call("track", code="AB1234").text == "AB1234 is on its way"
    assert mcp_client.call("track", code="1234").is_error


def test_what_is_returned_becomes_content_or_is_structured(mcp_client: Client) -> None:
    found = mcp_client.call("nearest", city="Paris")
    assert found.structured == [{"city": "Lyon", "distance": 12.5}]
    assert [block.type for block in mcp_client.call("label", code="AB1234").content] == ["text", "image"]
    schemas = {tool.name: tool.output_schema for tool in mcp_client.tools()}
    assert set(schemas["nearest"]["items"]["properties"]) == {"city", "distance"}
    assert schemas["label"] is None


def test_a_tools_own_words_reach_its_client(mcp_client: Client) -> None:
    told = mcp_client.call("cancel_parcel", code="AB0001")
    assert told.is_error
    assert told.text == "It has been delivered already; ask for a return instead."


def test_progress_and_lines_are_told_and_what_was_done_is_kept(mcp_client: Client, page: Names) -> None:
    packed = mcp_client.call("pack", items=["a", "b"])
    assert packed.structured == 2
    assert packed.progress == [(1, 2, "a"), (2, 2, "b")]
    assert [(line.level, line.message) for line in packed.log] == [("info", "a is packed"), ("info", "b is packed")]
    page["test_packing_can_be_stopped"](mcp_client)


def test_a_program_is_run_in_its_folder(mcp_client: Client, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one two three")
    assert mcp_client.call("count_words", folder=str(tmp_path)).text == "3"


def test_policies_and_graces_are_the_decorators(mcp_client: Client) -> None:
    tools = registered_tools()
    assert (tools["greet"].cancel_policy, tools["compute"].cancel_policy) == (CancelPolicy.KILL, CancelPolicy.INTERRUPT)
    assert tools["compute"].cooperative_grace == 1.0
    assert mcp_client.call("compute", steps=4).structured == 6
    assert tools["book"].time_limit == 600


def test_a_booking_that_has_begun_is_finished(mcp_client: Client) -> None:
    stopped = mcp_client.call("book", parcels=9, cancel_when=lambda told: len(told.log) == 3)
    assert (stopped.cancelled, stopped.stage) == (True, Stage.COOPERATIVE)
    assert stopped.request.partial_result["structuredContent"] == 3


def test_a_coroutine_is_called_like_any_tool(mcp_client: Client) -> None:
    assert mcp_client.call("ask_around", depots=["Lyon", "Nice"]).structured == ["Lyon has room", "Nice has room"]


def test_what_is_said_of_a_tool_is_shown_to_who_may_call_it(
    mcp_client: Client, admin_user: Any, django_user_model: Any
) -> None:
    mcp_client.force_login(django_user_model.objects.create_user("ann"))
    with pytest.raises(MCPError):
        mcp_client.call("depot.close", city="Lyon")
    mcp_client.force_login(admin_user)
    [shown] = [tool for tool in mcp_client.tools() if tool.name == "depot.close"]
    assert shown.title == "Close a depot"
    assert shown.annotations.destructive_hint
    assert shown.icons[0].src == "https://example.com/depot.png"
    assert mcp_client.call("depot.close", city="Lyon").text == "Lyon is closed"
    assert registered_tools()["depot.close"].queue == "depots"


@pytest.mark.parametrize("words", [options, methods])
def test_every_option_and_what_a_context_has_is_on_the_page(words: Callable[[], set[str]]) -> None:
    text = PAGE.read_text()
    assert {word for word in words() if not re.search(rf"\b{word}\b", text)} == set()
