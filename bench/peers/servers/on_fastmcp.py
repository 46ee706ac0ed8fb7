"""FastMCP in memory, for uvicorn."""

import asyncio
import time

from fastmcp import Context, FastMCP

from bench.peers.servers.fillers import fillers
from bench.peers.servers.steps import held, worked

server = FastMCP("peer")


@server.tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
async def progress(steps: int, delay: float, ctx: Context) -> str:
    """Report progress at each step, the message being the time of the report."""
    for done in range(1, steps + 1):
        await ctx.report_progress(done, steps, repr(time.time()))
        await asyncio.sleep(delay)
    return f"{steps} steps"


@server.tool
async def wait(number: int, seconds: float, path: str) -> str:
    """Wait, as a coroutine."""
    return await held(number, seconds, path)


@server.tool
def work(seconds: float, path: str) -> str:
    """Block, and write a line at each step."""
    return worked(seconds, path)


for filler in fillers(4):
    server.tool(filler)

app = server.http_app(path="/mcp")
