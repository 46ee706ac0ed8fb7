"""Tools that start others."""

import asyncio
from pathlib import Path

from mcp_app.tools import ToolContext, tool
from tests.everything.measuring_tools import INTERRUPTED, KILLED


@tool(**INTERRUPTED)
def family(children: int, folder: str, step: float, ctx: ToolContext) -> str:
    """Start as many children, each of which steps in a file of its own, and wait for them."""
    calls = [ctx.start("sleep_sync", seconds=60, path=str(Path(folder) / str(n)), step=step) for n in range(children)]
    ended = [call.result() for call in calls]
    return f"{len(ended)} children"


@tool(**INTERRUPTED)
async def family_async(children: int, folder: str, step: float, ctx: ToolContext) -> str:
    """The same as a coroutine, its children coroutines as well."""
    calls = [ctx.start("sleep", seconds=60, path=str(Path(folder) / str(n)), step=step) for n in range(children)]
    ended = await asyncio.gather(*calls)
    return f"{len(ended)} children"


@tool(**KILLED)
def stubborn_family(children: int, folder: str, step: float, ctx: ToolContext) -> str:
    """The same, with children and a parent that swallow every exception."""
    calls = [ctx.start("stubborn", seconds=60, path=str(Path(folder) / str(n)), step=step) for n in range(children)]
    while True:
        for call in calls:
            try:
                call.result()
            except BaseException:
                continue


@tool
def relay(steps: int, ctx: ToolContext) -> str:
    """Have another tool report progress, report none, and hand on what it returned."""
    result = ctx.start("progress", steps=steps, delay=0.01).result()
    return "".join(block.text for block in result.content if block.type == "text")
