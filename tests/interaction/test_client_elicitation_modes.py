"""2026-07-28 client/elicitation "Capabilities", "Requested Schema", "URL Mode", and the user's three responses."""

from typing import Any

import pytest
from pydantic import BaseModel

from mcp_app.catalogue.errors import InvalidPrompt
from mcp_app.prompts import ReadContext, prompt
from tests.interaction.answers import answer
from tests.support.asgi_client import META

pytestmark = pytest.mark.usefixtures("_prompts")


CAPABILITIES = META + "clientCapabilities"
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PAGE = "https://example.com/sign"


class Inner(BaseModel):
    n: int


class Nested(BaseModel):
    inner: Inner


class Optional(BaseModel):
    n: int | None = None


@pytest.fixture
def _prompts() -> None:
    @prompt
    def form(visit: ReadContext) -> str:
        """Ask for a number."""
        said = visit.elicit("first", "How many?", FORM)
        return f"{said.action} {said.content}"

    @prompt
    def page(visit: ReadContext, url: str = PAGE) -> str:
        """Send to a page."""
        return visit.elicit_url("first", "Please sign.", url).action


def get(name: str, elicitation: Any, **params: Any) -> Any:
    capabilities = {} if elicitation is None else {"elicitation": elicitation}
    return answer("prompts/get", meta={CAPABILITIES: capabilities}, name=name, **params)


@pytest.mark.parametrize(
    ("name", "mode", "able", "unable"),
    [
        ("form", "form", [{}, {"form": {}}], [None, {"url": {}}]),
        ("page", "url", [{"url": {}}], [None, {}, {"form": {}}]),
    ],
)
def test_each_mode_is_for_clients_that_declare_it(name: str, mode: str, able: list[Any], unable: list[Any]) -> None:
    for declared in able:
        asked = get(name, declared)["result"]["inputRequests"]["first"]
        assert (asked["method"], asked["params"]["mode"]) == ("elicitation/create", mode)
    for declared in unable:
        refusal = get(name, declared)["error"]
        assert refusal["code"] == -32021
        assert refusal["data"]["requiredCapabilities"] == {"elicitation": {mode: {}}}


def test_a_form_is_sent_as_it_was_declared_and_a_page_by_its_address() -> None:
    asked = get("form", {})["result"]["inputRequests"]["first"]["params"]
    assert asked == {"mode": "form", "message": "How many?", "requestedSchema": FORM}
    asked = get("page", {"url": {}})["result"]["inputRequests"]["first"]["params"]
    assert asked == {"mode": "url", "message": "Please sign.", "url": PAGE}


@pytest.mark.parametrize("model", [Nested, Optional, {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}])
def test_what_no_form_can_ask_is_refused_where_it_is_declared(model: Any) -> None:
    with pytest.raises(InvalidPrompt):
        prompt(name="odd", description="Ask for what cannot be asked.", asks=[model])(lambda: "")


def test_only_https_pages_are_sent_to() -> None:
    for url in ("http://example.com/sign", "javascript:alert(1)", "/sign"):
        assert get("page", {"url": {}}, arguments={"url": url})["error"]["code"] == -32603


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"action": "accept", "content": {"n": 3}}, "accept {'n': 3}"),
        ({"action": "decline"}, "decline None"),
        ({"action": "cancel", "content": {"n": 3}}, "cancel None"),
    ],
)
def test_all_three_responses_reach_whoever_asked(response: Any, said: str) -> None:
    state = get("form", {})["result"]["requestState"]
    result = get("form", {}, inputResponses={"first": response}, requestState=state)["result"]
    assert result["messages"][0]["content"]["text"] == said
