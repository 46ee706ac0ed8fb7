"""2026-07-28 server/utilities/pagination, for all four lists."""

import pytest

from mcp_app.prompts import prompt
from mcp_app.resources import resource
from mcp_app.tools import tool
from tests.interaction.answers import error_of, result_of

pytestmark = pytest.mark.usefixtures("_three_of_each")


LISTS = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
]


@pytest.fixture
def _three_of_each() -> None:
    for number in (3, 1, 2):
        resource(f"x://{number}", name=str(number))(lambda: "")
        resource(f"x://{number}/{{a}}", name=str(number))(lambda a: "")
        prompt(name=str(number))(lambda: "")
        tool(name=str(number), description="Work.")(lambda: "")


@pytest.mark.parametrize(("method", "member"), LISTS)
def test_pages_follow_each_other_to_an_end_without_a_cursor(configure, method: str, member: str) -> None:
    configure(PAGE_SIZE=2)
    first = result_of(method)
    assert [each["name"] for each in first[member]] == ["1", "2"]
    second = result_of(method, cursor=first["nextCursor"])
    assert [each["name"] for each in second[member]] == ["3"]
    assert "nextCursor" not in second


@pytest.mark.fault("G15")
@pytest.mark.parametrize(("method", "member"), LISTS)
def test_invalid_and_foreign_cursors_are_invalid_params(configure, method: str, member: str) -> None:
    configure(PAGE_SIZE=2)
    other = next(each for each, _ in LISTS if each != method)
    for cursor in ("", "x", result_of(other)["nextCursor"]):
        assert error_of(method, cursor=cursor)["code"] == -32602
