"""The prompts that the official conformance suite (0.2.0-alpha.12, revision 2026-07-28) expects a server to offer.

Names and texts are the suite's.
"""

from collections.abc import Mapping
from typing import Annotated

import mcp_types
from pydantic import BaseModel, Field

from mcp_app.prompts import Image, ReadContext, prompt
from tests.everything import samples

WORDS = ("paris", "party", "test value 1", "test value 2")


class Wanted(BaseModel):
    context: str


def complete_first(value: str, context: Mapping[str, str]) -> list[str]:
    """Return the words that begin with the typed text."""
    return [word for word in WORDS if word.startswith(value)]


@prompt
def test_simple_prompt() -> str:
    """Return a simple message."""
    return "This is a simple prompt for testing."


@prompt(completions={"arg1": complete_first})
def test_prompt_with_arguments(
    arg1: Annotated[str, Field(description="First test argument")],
    arg2: Annotated[str, Field(description="Second test argument")],
) -> str:
    """Return a message that contains the arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt
def test_prompt_with_embedded_resource(
    resourceUri: Annotated[str, Field(description="URI of the resource to embed")],  # noqa: N803 - the suite's name
) -> list[mcp_types.EmbeddedResource | str]:
    """Return a message with an embedded resource."""
    contents = mcp_types.TextResourceContents(
        uri=resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
    )
    return [mcp_types.EmbeddedResource(resource=contents), "Please process the embedded resource above."]


@prompt
def test_prompt_with_image() -> list[Image | str]:
    """Return a message with an image."""
    return [Image(samples.PNG, "image/png"), "Please analyze the image above."]


@prompt(asks=[Wanted])
def test_input_required_result_prompt(visit: ReadContext) -> str:
    """Ask for the context that the prompt should use."""
    answer = visit.elicit("user_context", "What context should the prompt use?", Wanted)
    return f"The context: {answer.content.context}" if answer.content else "No context."
