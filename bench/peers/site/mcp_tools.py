"""The tools of the peers, written for this project, with the same names and parameters."""

import asyncio
import time

from bench.peers.servers.fillers import fillers
from bench.peers.servers.steps import held, worked
from mcp_app.tools import CancelPolicy, ToolContext, tool
from tests.everything.changes import change_tools


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool(cancel=CancelPolicy.INTERRUPT, cooperative_grace=0)
async def progress(steps: int, delay: float, ctx: ToolContext) -> str:
    """Report progress at each step, the message being the time of the report."""
    for done in range(1, steps + 1):
        ctx.progress(done, steps, repr(time.time()))
        await asyncio.sleep(delay)
    return f"{steps} steps"


@tool(cancel=CancelPolicy.INTERRUPT, cooperative_grace=0)
async def wait(number: int, seconds: float, path: str) -> str:
    """Wait, as a coroutine."""
    return await held(number, seconds, path)


@tool
def work(seconds: float, path: str) -> str:
    """Block, and write a line at each step."""
    return worked(seconds, path)


@tool
def trigger_change() -> str:
    """Change the list of tools and return the time at which it was changed."""
    change_tools()
    return repr(time.time())


for filler in fillers(5):
    tool(filler)
