"""FastMCP with its tasks on Redis, for uvicorn. The worker runs inside the server, which is the default."""

import os

from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

from bench.peers.servers.fillers import fillers

server = FastMCP("peer")
server.add_extension(TasksExtension(url=os.environ["BENCH_REDIS"], concurrency=64))


@server.tool(task=True)
async def echo(text: str) -> str:
    """Return the text."""
    return text


for filler in fillers(1):
    server.tool(filler)

app = server.http_app(path="/mcp")
