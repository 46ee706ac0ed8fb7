"""Tools of the conformance suite that ask clients of 2025-11-25; their names and texts are the suite's."""

import json
from typing import Annotated, Any, Literal

import mcp_types
from pydantic import BaseModel, Field

from mcp_app.tools import Answer, ToolContext, tool


class Contact(BaseModel):
    username: Annotated[str, Field(description="User's response")]
    email: Annotated[str, Field(description="User's email address")]


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


CHOICES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
}


@tool
def test_sampling(prompt: str, ctx: ToolContext) -> str:
    """Ask the client's model."""
    content = ctx.sample("sample", prompt, max_tokens=100).content
    return f"LLM response: {content.text if isinstance(content, mcp_types.TextContent) else content}"


@tool(asks=[Contact])
def test_elicitation(message: str, ctx: ToolContext) -> str:
    """Ask for the user's name and email address."""
    return f"User response: {_told(ctx.elicit('contact', message, Contact))}"


@tool(asks=[Defaults])
def test_elicitation_sep1034_defaults(ctx: ToolContext) -> str:
    """Ask with a form whose fields have defaults."""
    return f"Elicitation completed: {_told(ctx.elicit('defaults', 'Please review the defaults.', Defaults))}"


@tool(asks=[CHOICES])
def test_elicitation_sep1330_enums(ctx: ToolContext) -> str:
    """Ask with a form that has every kind of choice."""
    return f"Elicitation completed: {_told(ctx.elicit('choices', 'Please choose.', CHOICES))}"


def _told(answer: Answer[Any]) -> str:
    content = answer.content.model_dump() if isinstance(answer.content, BaseModel) else answer.content
    return f"action={answer.action}, content={json.dumps(content)}"
