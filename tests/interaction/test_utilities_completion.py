"""2026-07-28 server/utilities/completion."""

from typing import Any

import pytest

from mcp_app.prompts import prompt
from mcp_app.resources import resource
from tests.interaction.answers import error_of, exchange, rejected_with, result_of
from tests.support.asgi_client import message

pytestmark = pytest.mark.usefixtures("offered")

REVIEW = {"type": "ref/prompt", "name": "review"}


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        (REVIEW, "language"),
        ({"type": "ref/resource", "uri": "notes://{day}/{hour}"}, "day"),
        ({"type": "ref/resource", "uri": "notes://monday/7"}, "day"),
    ],
)
def test_suggestions_for_what_was_typed_use_the_context(ref: dict[str, str], name: str) -> None:
    argument = {"name": name, "value": "t"}
    result = result_of("completion/complete", ref=ref, argument=argument)
    assert result["completion"] == {"values": ["tuesday", "thursday"], "total": 2, "hasMore": False}
    context = {"arguments": {"not": "tuesday"}}
    assert result_of("completion/complete", ref=ref, argument=argument, context=context)["completion"]["total"] == 1


@pytest.mark.parametrize(
    "params",
    [
        {"ref": {"type": "ref/prompt", "name": "unknown"}, "argument": {"name": "code", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": "unknown://{a}"}, "argument": {"name": "a", "value": ""}},
        {"ref": REVIEW, "argument": {"name": "unknown", "value": ""}},
        {"ref": REVIEW, "argument": {"name": "code"}},
    ],
)
def test_an_invalid_reference_or_argument_is_invalid_params(params: dict[str, Any]) -> None:
    assert error_of("completion/complete", **params)["code"] == -32602


def test_at_most_a_hundred_values_are_sent_in_the_order_of_their_rank() -> None:
    ranked = [f"word {number}" for number in range(150)]
    prompt(name="many", description="Offer many.", completions={"word": lambda value, context: ranked})(_echo)
    ref = {"type": "ref/prompt", "name": "many"}
    completion = result_of("completion/complete", ref=ref, argument={"name": "word", "value": ""})["completion"]
    assert completion == {"values": ranked[:100], "total": 150, "hasMore": True}


def test_what_the_caller_may_not_have_is_not_completed() -> None:
    kept = {"completions": {"word": lambda value, context: ["secret"]}, "available": lambda visit: False}
    prompt(name="kept", description="Keep.", **kept)(_echo)
    resource("kept://{word}", **kept)(_echo)
    argument = {"name": "word", "value": ""}
    for ref in ({"type": "ref/prompt", "name": "kept"}, {"type": "ref/resource", "uri": "kept://{word}"}):
        unknown = {**ref, "name": "none"} if "name" in ref else {**ref, "uri": "none://{word}"}
        refusals = [error_of("completion/complete", ref=each, argument=argument) for each in (ref, unknown)]
        assert [each["code"] for each in refusals] == [-32602, -32602]
        assert refusals[0]["message"].replace("kept", "none") == refusals[1]["message"]


async def test_completions_are_limited(configure) -> None:
    configure(COMPLETION_BURST=1, COMPLETION_RATE=0.001)
    body = message("completion/complete", ref=REVIEW, argument={"name": "language", "value": ""})
    assert (await exchange(body))[0] == 200
    assert await rejected_with(body) == (429, 429)


def _echo(word: str) -> str:
    return word
