"""2026-07-28 client/sampling: the messages to a model, and the clients that are asked.

Deprecated by the specification.
"""

from typing import Any

import mcp_types
import pytest

from mcp_app.prompts import ReadContext, prompt
from mcp_app.tools import Sampling
from tests.interaction.answers import answer
from tests.support.asgi_client import META

pytestmark = pytest.mark.usefixtures("_prompts")


CAPABILITIES = META + "clientCapabilities"


@pytest.fixture
def _prompts() -> None:
    @prompt
    def capital(visit: ReadContext) -> str:
        """Ask the client's model."""
        said = visit.sample("capital", "Capital of France?", max_tokens=9)
        if isinstance(said.content, list):
            return ", ".join(block.text for block in said.content)
        return said.content.text


def test_no_client_is_asked_that_did_not_declare_it() -> None:
    for capabilities in ({}, {"elicitation": {}}, {"roots": {}}):
        refusal = answer("prompts/get", meta={CAPABILITIES: capabilities}, name="capital")
        assert refusal["error"]["code"] == -32021
        assert refusal["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}


def test_it_is_asked_without_tools_and_without_context() -> None:
    asked = answer("prompts/get", meta={CAPABILITIES: {"sampling": {}}}, name="capital")["result"]
    assert asked["inputRequests"]["capital"] == {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Capital of France?"}}],
            "maxTokens": 9,
        },
    }


def test_tool_use_no_messages_of_tools_are_sent_without_tools() -> None:
    used = mcp_types.ToolUseContent(id="1", name="t", input={})
    result = mcp_types.ToolResultContent(tool_use_id="1", content=[])
    for content in (used, [result], [mcp_types.TextContent(text="So"), result]):
        with pytest.raises(ValueError, match="offers no tools"):
            Sampling([mcp_types.SamplingMessage(role="user", content=content)], max_tokens=1)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"type": "text", "text": "Paris"}, "Paris"),
        ([{"type": "text", "text": "Paris"}], "Paris"),
        ([{"type": "text", "text": "Paris"}, {"type": "text", "text": "France"}], "Paris, France"),
    ],
    ids=["a block", "a list of one", "a list"],
)
def test_an_answer_is_a_block_or_a_list_of_them(content: Any, told: str) -> None:
    result = answered(content)["result"]
    assert result["messages"][0]["content"]["text"] == told


@pytest.mark.parametrize("content", [[{"type": "tool_use", "id": "1", "name": "t", "input": {}}], {}, "Paris", None])
def test_an_answer_that_is_none_is_refused(content: Any) -> None:
    assert answered(content)["error"]["code"] == -32602


def answered(content: Any) -> Any:
    """Return the response after the client's model has answered."""
    meta = {CAPABILITIES: {"sampling": {}}}
    state = answer("prompts/get", meta=meta, name="capital")["result"]["requestState"]
    said = {"capital": {"role": "assistant", "content": content, "model": "m"}}
    return answer("prompts/get", meta=meta, name="capital", inputResponses=said, requestState=state)
