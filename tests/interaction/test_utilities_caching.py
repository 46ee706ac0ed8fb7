"""server/utilities/caching, for resources and prompts."""

import pytest

from mcp_app.prompts import prompt
from mcp_app.resources import resource
from tests.interaction.answers import result_of

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


def test_a_read_that_may_differ_by_caller_is_private() -> None:
    assert result_of("resources/read", uri="mine://notes")["cacheScope"] == "private"
    result = result_of("resources/read", uri="notes://today")
    assert (result["ttlMs"], result["cacheScope"]) == (0, "public")
