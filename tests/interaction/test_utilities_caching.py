"""2026-07-28 server/utilities/caching."""

from typing import Any

import pytest

from mcp_app.prompts import prompt
from mcp_app.resources import ReadContext, resource
from mcp_app.tools import tool
from tests.interaction.answers import answer, result_of
from tests.support.asgi_client import META

pytestmark = pytest.mark.usefixtures("offered")

LISTS = ("resources/list", "resources/templates/list", "prompts/list")


@pytest.mark.parametrize("method", LISTS)
def test_lists_carry_hints_and_are_public_where_they_are_everybodys(method: str) -> None:
    result = result_of(method)
    assert (result["ttlMs"], result["cacheScope"]) == (5_000, "public")


@pytest.mark.parametrize("method", LISTS)
def test_every_page_of_a_list_that_may_differ_by_caller_is_private(configure, method: str) -> None:
    configure(PAGE_SIZE=1)
    resource("z://last", available=lambda visit: True)(lambda: "")
    prompt(name="zlast", available=lambda visit: True)(lambda: "")
    first = result_of(method)
    second = result_of(method, cursor=first["nextCursor"])
    assert [page["cacheScope"] for page in (first, second)] == ["private", "private"]


def test_a_read_that_may_differ_by_caller_is_private(settings: Any) -> None:
    settings.LANGUAGES = [("en", "English")]
    assert result_of("resources/read", uri="mine://notes")["cacheScope"] == "private"
    result = result_of("resources/read", uri="notes://today")
    assert (result["ttlMs"], result["cacheScope"]) == (0, "public")


def test_the_six_operations_carry_hints_and_no_other_does() -> None:
    hinted = {"server/discover": {}, "tools/list": {}, "resources/read": {"uri": "notes://today"}}
    for method, params in {**hinted, **{method: {} for method in LISTS}}.items():
        result = result_of(method, **params)
        assert type(result["ttlMs"]) is int
        assert result["ttlMs"] >= 0
        assert result["cacheScope"] in ("public", "private")
    assert "ttlMs" not in result_of("prompts/get", name="review", arguments={"code": "x"})


def test_every_page_of_the_tools_has_one_scope(configure) -> None:
    configure(PAGE_SIZE=1)
    tool(name="zlast", description="Come last.")(lambda: "")
    first = result_of("tools/list")
    second = result_of("tools/list", cursor=first["nextCursor"])
    assert [page["cacheScope"] for page in (first, second)] == ["private", "private"]


def test_questions_and_what_comes_of_their_answers_are_not_to_be_kept() -> None:
    @resource("asking://it", ttl_ms=60_000)
    def asking(visit: ReadContext) -> str:
        """Ask."""
        return visit.elicit("first", "How many?", {"type": "object", "properties": {}}).action

    able = {META + "clientCapabilities": {"elicitation": {}}}
    asked = answer("resources/read", meta=able, uri="asking://it")["result"]
    assert asked["resultType"] == "input_required"
    assert asked.keys().isdisjoint({"ttlMs", "cacheScope"})
    answers = {"first": {"action": "decline"}}
    state = asked["requestState"]
    result = result_of("resources/read", meta=able, uri="asking://it", inputResponses=answers, requestState=state)
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
