"""Tools that ask the user for input."""

from typing import Literal

from pydantic import BaseModel, Field

from mcp_app.tools import CannotAsk, Form, ToolContext, tool
from tests.everything.steps import append


class Order(BaseModel):
    """A model that is used as a form."""

    quantity: int = Field(ge=1, le=9)
    size: Literal["small", "large"] = "small"


@tool(asks=[Order])
def order(path: str, ctx: ToolContext) -> str:
    """Reserve a number once, ask for the order, then for a confirmation. Every run appends a line to the file."""
    append(path, "run\n")
    number = ctx.once("number", lambda: _reserve(path))
    wanted = ctx.elicit("order", "How many, and how large?", Order)
    if wanted.content is None:
        return f"{number}: {wanted.action}"
    sure = ctx.elicit(
        "sure", f"{wanted.content.quantity}, really?", {"type": "object", "properties": {"yes": {"type": "boolean"}}}
    )
    return f"{number}: {wanted.content.quantity} {wanted.content.size}, {sure.action}"


@tool(requires={"elicitation": {"url": {}}})
def visit(ctx: ToolContext) -> str:
    """Send the user to a page."""
    return ctx.elicit_url("page", "Please sign there.", "https://example.com/sign").action


@tool
def ask_if_possible(ctx: ToolContext) -> str:
    """Ask for an order, or return the error if the client cannot be asked."""
    try:
        return str(ctx.ask(order=Form("How many?", Order))["order"].action)
    except CannotAsk as error:
        return str(error)


def _reserve(path: str) -> int:
    append(path, "reserved\n")
    return 17
