"""2026-07-28 client/sampling: what a model is asked, and of which clients. Deprecated by the specification."""

import mcp_types
import pytest

from mcp_app.prompts import Visit, prompt
from mcp_app.tools import Sampling
from tests.interaction.answers import answer
from tests.transport.client import META

CAPABILITIES = META + "clientCapabilities"


@pytest.fixture(autouse=True)
def _prompts() -> None:
    @prompt
    def capital(visit: Visit) -> str:
        """Ask the client's model."""
        return visit.sample("capital", "Capital of France?", max_tokens=9).content.text


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
