import time

from mcp_app.tools import ToolContext, tool
from orders.models import Entry
from orders.pricing import quote


@tool
def price(cents: int) -> str:
    """Return a price as text."""
    return quote(cents)


@tool
def order(text: str, ctx: ToolContext) -> str:
    """Write a line into the ledger."""
    Entry.objects.create(text=f"{text} by {ctx.user}")
    return "written"


@tool
def audit() -> str:
    """Run longer than the limit of the company's own tasks."""
    for _ in range(30):
        time.sleep(0.1)
    return "audited"
