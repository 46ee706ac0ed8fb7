"""Tools, a resource and a prompt as an author may write them, for the tests of the test client."""

import asyncio
import logging
import sys
import time

from django.contrib.auth.models import Group
from django.db import transaction
from pydantic import BaseModel, Field

from mcp_app.prompts import prompt
from mcp_app.resources import resource
from mcp_app.tools import CancelPolicy, ToolCancelled, ToolContext, ToolError, tool

logger = logging.getLogger(__name__)
happened: list[str] = []


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def make_groups(names: list[str], ctx: ToolContext) -> list[str]:
    """Make groups, all or none."""
    with transaction.atomic():
        for number, name in enumerate(names, 1):
            if not name:
                raise ToolError("a group has a name")
            Group.objects.create(name=name)
            ctx.progress(number, len(names), name)
            fetch(name)
    logger.info("%d groups were made", len(names))
    return sorted(Group.objects.values_list("name", flat=True))


def fetch(name: str) -> None:
    """Do nothing. Tests replace it."""


@tool
def broken() -> str:
    """Fail with an unexpected exception."""
    raise ZeroDivisionError("of no use to a client")


@tool(permissions=["auth.view_user"], scopes=["users"])
def count_users(ctx: ToolContext) -> str:
    """Return a text for users with a permission and a scope."""
    return f"{ctx.user} may"


class Order(BaseModel):
    quantity: int = Field(ge=1, le=9)


@tool(asks=[Order])
def order(ctx: ToolContext) -> str:
    """Ask the user for a quantity."""
    number = ctx.once("number", lambda: happened.append("once") or 17)
    wanted = ctx.elicit("order", "How many?", Order)
    return f"{number}: {wanted.content.quantity}" if wanted.content else f"{number}: {wanted.action}"


@tool(cancel=CancelPolicy.INTERRUPT, cooperative_grace=0)
def block(seconds: float, ctx: ToolContext) -> str:
    """Sleep without checking for a stop, and record an interrupt."""
    try:
        time.sleep(seconds)
    except ToolCancelled:
        happened.append("interrupted")
        raise
    return "slept"


@tool(cancel=CancelPolicy.COOPERATIVE)
def look(ctx: ToolContext) -> str:
    """Check often whether the call is stopped."""
    for done in range(1000):
        ctx.progress(done + 1)
        ctx.sleep(0.01)
    return "done"


@tool(cancel=CancelPolicy.INTERRUPT, cooperative_grace=0)
def shielded(ctx: ToolContext) -> str:
    """Finish a shielded step before the call is stopped."""
    with ctx.shield():
        ctx.progress(1)
        time.sleep(0.05)
        happened.append("finished")
    time.sleep(30)
    return "never"


@tool(cancel=CancelPolicy.KILL, cooperative_grace=0, hard_grace=0.02)
def stubborn(ctx: ToolContext) -> str:
    """Swallow every exception."""
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        try:
            ctx.log("info", "goes on")
            time.sleep(0.05)
        except BaseException:
            happened.append("swallowed")
    return "done"


@tool
def run_program(code: str, ctx: ToolContext) -> str:
    """Run a program."""
    return ctx.run([sys.executable, "-c", code], progress=True).output


@tool
def starts(ctx: ToolContext) -> str:
    """Start another tool, and return its result."""
    return "".join(block.text for block in ctx.start("add", a=2, b=3).result().content)


@tool
async def asynchronous(name: str, ctx: ToolContext) -> str:
    """Read rows, start another tool and wait, as a coroutine."""
    await Group.objects.acreate(name=name)
    count = await Group.objects.filter(name=name).acount()
    await asyncio.sleep(0)
    started = await ctx.start("add", a=count, b=1)
    ctx.progress(1)
    await asyncio.sleep(0.01)
    return started.content[0].text


@tool(cancel=CancelPolicy.INTERRUPT)
def starts_groups(names: list[str], ctx: ToolContext) -> str:
    """Start `make_groups`, and return its result."""
    return str(ctx.start("make_groups", names=names).result().structured_content)


@resource("shop://greeting")
def greeting() -> str:
    """Return a greeting."""
    return "hello"


def names(value: str, known: dict[str, str]) -> list[str]:
    """Return the names that begin with the value."""
    return [name for name in ("ann", "anna", "bob") if name.startswith(value)]


@prompt(completions={"name": names})
def welcome(name: str) -> str:
    """Welcome a user by name."""
    return f"Welcome, {name}!"
