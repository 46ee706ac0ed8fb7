"""Tools of the conformance suite that ask their client for input; their names and texts are the suite's."""

from typing import Any

import mcp_types
from pydantic import BaseModel

from mcp_app.catalogue.input.questions import Question
from mcp_app.protocol.metadata import has_capabilities
from mcp_app.tools import Form, Roots, Sampling, ToolContext, tool

PREFIX = "test_input_required_result_"


class Name(BaseModel):
    name: str


class Confirmed(BaseModel):
    ok: bool


class Colour(BaseModel):
    color: str


ASK_NAME = Form("What is your name?", Name)
CONFIRM = Form("Please confirm", Confirmed)
CAPITAL = Sampling("What is the capital of France?", max_tokens=100)


@tool(name=PREFIX + "elicitation", asks=[Name])
def greet_by_name(ctx: ToolContext) -> str:
    """Ask the user's name."""
    answer = ctx.elicit("user_name", "What is your name?", Name)
    return f"Hello, {answer.content.name}!" if answer.content else "Hello, whoever you are!"


@tool(name=PREFIX + "sampling")
def ask_model(ctx: ToolContext) -> str:
    """Ask the client's model."""
    return _said(ctx.sample("capital_question", "What is the capital of France?", max_tokens=100))


@tool(name=PREFIX + "list_roots")
def ask_roots(ctx: ToolContext) -> str:
    """Ask which folders the client offers."""
    return f"Roots: {', '.join(str(root.uri) for root in ctx.roots('client_roots'))}"


@tool(name=PREFIX + "request_state", asks=[Confirmed])
def confirm_with_state(ctx: ToolContext) -> str:
    """Ask for a confirmation that comes back with its state."""
    ctx.ask(confirm=CONFIRM)
    return "state-ok"


@tool(name=PREFIX + "multiple_inputs")
def ask_everything(ctx: ToolContext) -> str:
    """Ask for three kinds of input in one round."""
    answers = ctx.ask(user_name=ASK_NAME, greeting=Sampling("Write a greeting.", max_tokens=50), client_roots=Roots())
    return f"{_said(answers['greeting'])} ({len(answers['client_roots'])} roots)"


@tool(name=PREFIX + "multi_round", asks=(Name, Colour))
def ask_twice(ctx: ToolContext) -> str:
    """Ask for a name, and then for a colour."""
    name = ctx.elicit("step1", "Step 1: What is your name?", Name)
    colour = ctx.elicit("step2", "Step 2: What is your favorite color?", Colour)
    return f"{name.action}, {colour.action}"


@tool(name=PREFIX + "tampered_state", asks=[Confirmed])
def confirm_untampered(ctx: ToolContext) -> str:
    """Ask for a confirmation whose state the client must not change."""
    ctx.ask(confirm=CONFIRM)
    return "state-ok"


@tool(name=PREFIX + "capabilities")
def ask_what_is_declared(ctx: ToolContext) -> str:
    """Ask only for the kinds of input that the client supports."""
    possible: dict[str, Question[Any]] = {"user_name": ASK_NAME, "capital_question": CAPITAL, "client_roots": Roots()}
    able = {key: each for key, each in possible.items() if has_capabilities(each.capability, ctx.request.capabilities)}
    return f"Answered: {', '.join(ctx.ask(**able))}"


def _said(result: mcp_types.CreateMessageResultWithTools) -> str:
    return ", ".join(
        block.text if isinstance(block, mcp_types.TextContent) else block.type for block in result.content_as_list
    )
