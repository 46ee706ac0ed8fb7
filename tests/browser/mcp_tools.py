"""Tools that tests watch and stop in the admin. They show their work by lines in a file."""

import datetime as dt
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from mcp_app.tools import CancelPolicy, ToolContext, tool
from tests.browser.hostile import TEXT
from tests.everything.steps import Steps

STEP: Final = 0.05
POLL: Final = 0.02


@tool(title="Index documents", cancel=CancelPolicy.INTERRUPT)
def index_documents(path: str, documents: int, ctx: ToolContext) -> str:
    """Index documents one by one, and append a line to the file for each. If cancelled, return how many are done."""
    steps = Steps(path, documents * STEP, STEP)
    ctx.log("info", f"{documents} documents to index")
    while steps.remain:
        ctx.partial_result = f"{steps.taken} of {documents} documents are indexed"
        ctx.progress(steps.taken, documents, f"document {steps.taken}")
        steps.take()
        ctx.sleep(STEP)
    return steps.summary


@tool(title="Wait for a file", cancel=CancelPolicy.INTERRUPT)
def wait_for_file(path: str, ctx: ToolContext) -> str:
    """Wait until the file is there."""
    while not Path(path).exists():
        ctx.sleep(POLL)
    return "It is there."


@tool(title="Hostile", cancel=CancelPolicy.INTERRUPT)
def hostile_texts(text: str, ctx: ToolContext) -> str:
    """Send the hostile text in every way that a tool has, and wait for the cancellation."""
    ctx.log("error", text, logger_name=text)
    ctx.progress(1, 2, text)
    ctx.partial_result = text
    ctx.sleep(600)
    return text


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    """The address of the delivery."""

    street: str
    city: str = "Paris"


@tool(title="Order parts")
def order_parts(
    name: Annotated[str, Field(description="What the supplier calls them.")],
    count: Annotated[int, Field(description="How many.", ge=1)],
    address: Address,
    colours: list[Colour],
    price: Annotated[float, Field(description="At most, for each, in euros.")] = 9.5,
    colour_of_box: Colour = Colour.RED,
    day: dt.date | None = None,
    at: dt.datetime | None = None,
    contact: Annotated[str | None, Field(json_schema_extra={"format": "email"})] = None,
    notes: Annotated[list[str], Field(description="Each is printed on a label.")] = [],  # noqa: B006 - never changed
    extra: dict[str, int] = {},  # noqa: B006 - never changed
    urgent: bool = False,
    invoice_to: Address | None = None,
) -> dict[str, Any]:
    """Order parts from a supplier, and return the order."""
    return {name: str(value) for name, value in locals().items()}


@tool(
    title="Hostile schema",
    input_schema={
        "type": "object",
        "properties": {
            TEXT: {"type": "string", "title": TEXT, "description": TEXT, "default": TEXT},
            "choice": {"oneOf": [{"const": TEXT, "title": TEXT}], "description": TEXT},
            "group": {"type": "object", "description": TEXT, "properties": {TEXT: {"type": "integer"}}},
        },
    },
)
def hostile_schema(arguments: dict[str, Any]) -> str:
    """Have a schema with hostile names and texts."""
    return str(len(arguments))
