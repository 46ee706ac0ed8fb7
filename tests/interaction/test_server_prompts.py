"""server/prompts."""

from typing import Any

import pytest

from mcp_app.prompts import prompt
from tests.interaction.answers import error_of, result_of

pytestmark = pytest.mark.usefixtures("offered")


def test_listing_prompts_shows_their_arguments() -> None:
    prompts = result_of("prompts/list")["prompts"]
    assert [each["name"] for each in prompts] == ["broken_prompt", "review"]
    assert prompts[1] == {
        "name": "review",
        "title": "Review",
        "description": "Ask for a review.",
        "arguments": [{"name": "code", "required": True}, {"name": "language", "required": False}],
    }


def test_getting_a_prompt_returns_messages_of_both_roles() -> None:
    result = result_of("prompts/get", name="review", arguments={"code": "1/0"})
    assert result["description"] == "Ask for a review."
    assert result["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Review this python: 1/0"}},
        {"role": "user", "content": {"type": "image", "data": "AA==", "mimeType": "image/png"}},
        {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
    ]


@pytest.mark.parametrize(
    "params",
    [
        {"name": "unknown"},
        {"name": "review"},
        {"name": "review", "arguments": {"language": "c"}},
        {"name": "review", "arguments": {"code": 1}},
        {"name": "review", "arguments": {"code": "x", "other": "y"}},
    ],
)
def test_an_invalid_name_or_missing_argument_is_invalid_params(params: dict[str, Any]) -> None:
    assert error_of("prompts/get", **params)["code"] == -32602


def test_a_prompts_own_words_reach_the_client_and_nothing_else_does() -> None:
    error = error_of("prompts/get", name="review", arguments={"code": ""})
    assert error == {"code": -32602, "message": "There is no code to review."}
    error = error_of("prompts/get", name="broken_prompt")
    assert error["code"] == -32603
    assert "secret" not in error["message"]


def test_a_prompt_that_the_caller_may_not_have_is_as_unknown_as_one_that_is_not_there() -> None:
    prompt(name="secret", description="Tell.", available=lambda visit: False)(lambda: "")
    assert "secret" not in [each["name"] for each in result_of("prompts/list")["prompts"]]
    refusals = [error_of("prompts/get", name=name) for name in ("secret", "none")]
    assert refusals[0]["message"].replace("secret", "none") == refusals[1]["message"]
    assert {each["code"] for each in refusals} == {-32602}


def test_arguments_are_strings() -> None:
    for arguments in ({"code": 1}, {"code": None}, ["code"], "code"):
        assert error_of("prompts/get", name="review", arguments=arguments)["code"] == -32602
