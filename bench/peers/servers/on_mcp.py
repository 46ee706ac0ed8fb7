"""The official SDK in memory, for uvicorn."""

import asyncio
import time

from mcp.server.mcpserver import Context, MCPServer

from bench.peers.servers.fillers import fillers
from bench.peers.servers.steps import held, worked

server = MCPServer("peer", log_level="WARNING")


@server.tool()
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool()
async def progress(steps: int, delay: float, ctx: Context) -> str:
    """Report progress at each step, the message being the time of the report."""
    for done in range(1, steps + 1):
        await ctx.report_progress(done, steps, repr(time.time()))
        await asyncio.sleep(delay)
    return f"{steps} steps"


@server.tool()
async def wait(number: int, seconds: float, path: str) -> str:
    """Wait, as a coroutine."""
    return await held(number, seconds, path)


@server.tool()
def work(seconds: float, path: str) -> str:
    """Block, and write a line at each step."""
    return worked(seconds, path)


@server.tool()
async def trigger_change(ctx: Context) -> str:
    """Report that the list of tools has changed."""
    await ctx.notify_tools_changed()
    return repr(time.time())


for filler in fillers(5):
    server.add_tool(filler)

app = server.streamable_http_app()
