"""`@prompt`: its declaration, its MCP object, and its checks."""

from typing import Annotated, Any

import mcp_types
import pytest
from pydantic import Field

from mcp_app.catalogue.errors import InvalidPrompt
from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.prompts import ReadContext, prompt


def test_a_prompt_shows_its_arguments() -> None:
    @prompt(title="Review", icons=[mcp_types.Icon(src="data:image/png;base64,AA==")], meta={"example.com/a": 1})
    def review(
        code: Annotated[str, Field(description="What to review", title="Code")],
        visit: ReadContext,
        strict: bool = False,
    ) -> str:
        """Ask for a review."""
        return code

    assert review("x", visit=None) == "x"  # type: ignore[arg-type]  # the function itself is returned
    assert registered_prompts()["review"].wire() == {
        "name": "review",
        "title": "Review",
        "description": "Ask for a review.",
        "arguments": [
            {"name": "code", "title": "Code", "description": "What to review", "required": True},
            {"name": "strict", "required": False},
        ],
        "icons": [{"src": "data:image/png;base64,AA=="}],
        "_meta": {"example.com/a": 1},
    }


def test_a_prompt_without_arguments_lists_none() -> None:
    @prompt
    def say_hello() -> str:
        return "hello"

    assert registered_prompts()["say_hello"].wire() == {"name": "say_hello", "description": "Say hello"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": "a b"}, "1 to 128 characters"),
        ({"icons": [mcp_types.Icon(src="http://example.com/i.png")]}, "https:// or data:"),
        ({"completions": {"other": lambda value, context: []}}, "completions .*other"),
        ({"meta": {"a": float("nan")}}, "plain, finite JSON"),
    ],
)
def test_an_unusable_declaration_is_refused(options: dict[str, Any], reason: str) -> None:
    def greet() -> str: ...

    with pytest.raises(InvalidPrompt, match=reason):
        prompt(**options)(greet)
    assert not registered_prompts()
