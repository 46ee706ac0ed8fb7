"""server/utilities/completion."""

from typing import Any

import pytest

from tests.interaction.answers import error_of, result_of

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
