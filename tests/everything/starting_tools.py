"""Tools that start other tools."""

import asyncio
from pathlib import Path

from mcp_app.tools import ToolContext, tool
from tests.everything.measuring_tools import INTERRUPTED, KILLED


@tool(**INTERRUPTED)
def family(children: int, folder: str, step: float, ctx: ToolContext) -> str:
    """Start `sleep_sync` as many times as given, each with a file of its own, and wait for the children."""
    calls = [ctx.start("sleep_sync", seconds=60, path=str(Path(folder) / str(n)), step=step) for n in range(children)]
    ended = [call.result() for call in calls]
    return f"{len(ended)} children"


@tool(**INTERRUPTED)
async def family_async(children: int, folder: str, step: float, ctx: ToolContext) -> str:
    """Start `sleep` as many times as given, each with a file of its own, and wait for the children in a coroutine."""
    calls = [ctx.start("sleep", seconds=60, path=str(Path(folder) / str(n)), step=step) for n in range(children)]
    ended = await asyncio.gather(*calls)
    return f"{len(ended)} children"


@tool(**KILLED)
def stubborn_family(children: int, folder: str, step: float, ctx: ToolContext) -> str:
    """Start `stubborn` as many times as given, and swallow every exception while waiting for the children."""
    calls = [ctx.start("stubborn", seconds=60, path=str(Path(folder) / str(n)), step=step) for n in range(children)]
    while True:
        for call in calls:
            try:
                call.result()
            except BaseException:
                continue


@tool
def relay(steps: int, ctx: ToolContext) -> str:
    """Start `progress` without reporting its progress, and return its text."""
    result = ctx.start("progress", steps=steps, delay=0.01).result()
    return "".join(block.text for block in result.content if block.type == "text")
