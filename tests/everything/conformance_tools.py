"""The tools that the official conformance suite (0.2.0-alpha.12) expects a server to offer.

Names and texts are the suite's. Tools that ask the client for input, or become tasks, have modules of their own.
"""

import time
from typing import Annotated, Any, Final

import mcp_types
from pydantic import Field

from mcp_app.models import Request
from mcp_app.prompts import notify_prompts_list_changed
from mcp_app.tools import Audio, Image, ToolContext, ToolError, tool
from tests.everything import samples
from tests.everything.changes import change_tools

BETWEEN_REPORTS: Final = 0.05

CONTACT_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Image:
    """Return an image."""
    return Image(samples.PNG, "image/png")


@tool
def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(samples.WAV, "audio/wav")


@tool
def test_embedded_resource() -> mcp_types.EmbeddedResource:
    """Return a resource inside the result."""
    return _resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@tool
def test_multiple_content_types() -> list[str | Image | mcp_types.EmbeddedResource]:
    """Return a text, an image and a resource in one result."""
    return [
        "Multiple content types test:",
        Image(samples.PNG, "image/png"),
        _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@tool
def test_error_handling() -> str:
    """Fail with a message for the model."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
def test_tool_with_progress(ctx: ToolContext) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"Completed step {done} of 100")
        ctx.sleep(BETWEEN_REPORTS)
    return "Progress was reported three times."


@tool
def test_tool_with_logging(ctx: ToolContext) -> str:
    """Log three messages for a client that asks for log messages."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log("info", line)
        ctx.sleep(BETWEEN_REPORTS)
    return "Three log messages were sent."


@tool(input_schema=CONTACT_SCHEMA)
def json_schema_2020_12_tool(contact: dict[str, Any]) -> str:
    """Take an argument whose schema uses keywords of JSON Schema 2020-12."""
    return f"Received: {', '.join(sorted(contact))}"


@tool(name="test_x_mcp_header")
def mirrored_parameter(
    region: Annotated[
        str, Field(description="Mirrored by Mcp-Param-Region", json_schema_extra={"x-mcp-header": "Region"})
    ] = "",
) -> str:
    """Take an argument that is repeated in an HTTP header."""
    return f"Region: {region}"


@tool(requires={"sampling": {}})
def test_missing_capability() -> str:
    """Require a client that declares the capability `sampling`."""
    return "The client declares sampling."


@tool
def test_streaming_elicitation() -> str:
    """Answer at once, without a request to the client on the response stream."""
    return "No request was sent to the client."


@tool
def test_logging_tool(ctx: ToolContext) -> str:
    """Log, for clients that ask for log messages."""
    ctx.log("info", "Tool execution started")
    ctx.log("info", "Tool execution completed")
    return "Two lines were logged."


@tool
def test_trigger_tool_change() -> str:
    """Change the list of tools."""
    change_tools()
    return f"Changed at {time.time()!r}."


@tool
def test_trigger_prompt_change() -> str:
    """Change the list of prompts."""
    notify_prompts_list_changed()
    return f"Changed at {time.time()!r}."


@tool(time_limit=10.0)
def test_reconnection(ctx: ToolContext) -> str:
    """Run until the client has reconnected for the result, after its connection was cut (`MCP["CUT_AFTER"]`)."""
    while not Request.objects.filter(pk=ctx.request.id, follower__isnull=False).exists():
        ctx.sleep(BETWEEN_REPORTS)
    return "The client came back."


def _resource(uri: str, mime_type: str, text: str) -> mcp_types.EmbeddedResource:
    return mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))
