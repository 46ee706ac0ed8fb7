"""2026-07-28 basic/patterns/mrtr in `prompts/get` and `resources/read`: nothing is stored, the state carries it all.

Each request is served by a server process of its own.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from mcp_types.methods import validate_server_result
from pydantic import BaseModel, Field

from mcp_app.models import Request
from mcp_app.prompts import Visit, prompt
from mcp_app.protocol.revisions import MODERN
from mcp_app.resources import resource
from tests.interaction.answers import answer
from tests.transport.client import META

ABLE = {META + "clientCapabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}}
DECLINED = {"action": "decline"}


class Count(BaseModel):
    n: int = Field(ge=1, le=9)


def accepted(n: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"n": n}}


@pytest.fixture(autouse=True)
def runs() -> list[str]:
    """What was run, in its order; `plan` asks twice, `notes://{day}` once."""
    runs: list[str] = []

    @prompt
    def plan(visit: Visit, about: str = "it") -> str:
        runs.append(about)
        number = visit.once("number", lambda: len(runs))
        first = visit.elicit("first", "How many?", Count)
        if first.content is None:
            return f"none of {about}"
        second = visit.elicit("second", f"And after {first.content.n}?", Count)
        return f"{number}: {first.content.n}, {second.action} of {about}"

    @prompt
    def other(visit: Visit, about: str = "it") -> str:
        return visit.elicit("first", "How many?", Count).action

    @resource("notes://{day}", ttl_ms=60_000)
    async def notes(day: str, visit: Visit) -> str:
        runs.append(day)
        return f"{day}: {visit.elicit('first', 'How many?', Count).action}" if day != "sunday" else "none"

    return runs


def get(name: str = "plan", answers: Any = None, state: Any = None, **arguments: str) -> Any:
    return _asked("prompts/get", answers, state, name=name, arguments=arguments)


def read(uri: str, answers: Any = None, state: Any = None) -> Any:
    return _asked("resources/read", answers, state, uri=uri)


def _asked(method: str, answers: Any, state: Any, **params: Any) -> Any:
    brought = {"inputResponses": answers, "requestState": state}
    params |= {name: value for name, value in brought.items() if value is not None}
    return answer(method, meta=ABLE, **params)


def asks(answered: Mapping[str, Any], *keys: str) -> str:
    """Its state, where it asks for exactly these."""
    result = answered["result"]
    assert result["resultType"] == "input_required"
    assert list(result["inputRequests"]) == list(keys)
    assert "ttlMs" not in result
    return str(result["requestState"])


def text(answered: Mapping[str, Any]) -> str:
    result = answered["result"]
    assert result["resultType"] == "complete"
    return str(result["messages"][0]["content"]["text"])


def test_a_prompt_runs_again_with_each_answer_and_is_given_what_it_did_once(runs: list[str]) -> None:
    first = get(about="x")
    validate_server_result("prompts/get", MODERN, first["result"])
    state = asks(first, "first")
    later = get(about="x", state=state, answers={"first": accepted(3)})
    assert later["result"]["inputRequests"]["second"]["params"]["message"] == "And after 3?"
    assert asks(later, "second") != state
    ended = get(about="x", state=asks(later, "second"), answers={"second": DECLINED})
    assert text(ended) == "1: 3, decline of x"
    assert runs == ["x"] * 3
    assert not Request.objects.exists()
