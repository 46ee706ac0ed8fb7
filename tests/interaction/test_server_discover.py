"""2026-07-28 server/discover: nothing is needed before it, and its capabilities are all delivered."""

import pytest

from mcp_app.prompts import prompt
from mcp_app.resources import resource
from tests.interaction.answers import error_of, result_of

METHODS = {
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "x://a"},
    "prompts/list": {},
    "prompts/get": {"name": "p"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
}


def test_each_capability_is_advertised_where_something_of_its_kind_is_offered() -> None:
    assert result_of("server/discover")["capabilities"].keys() == {"tools", "logging", "extensions"}
    resource("x://{a}")(lambda a: a)
    prompt(name="p")(lambda a: a)
    capabilities = result_of("server/discover")["capabilities"]
    assert capabilities["resources"] == {"listChanged": True, "subscribe": True}
    assert capabilities["prompts"] == {"listChanged": True}
    assert "completions" not in capabilities
    resource("y://{a}", completions={"a": lambda value, context: []})(lambda a: a)
    assert result_of("server/discover")["capabilities"]["completions"] == {}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_behind_a_capability_that_is_not_advertised_is_not_found(method: str) -> None:
    assert error_of(method, **METHODS[method])["code"] == -32601


def test_it_is_answered_first_and_carries_its_hints(configure) -> None:
    configure(INSTRUCTIONS="Ask for work.")
    result = result_of("server/discover")
    assert result["supportedVersions"] == ["2026-07-28"]
    assert (result["ttlMs"], result["cacheScope"]) == (5_000, "public")
    assert result["instructions"] == "Ask for work."
    assert "tasks" not in result["capabilities"]
