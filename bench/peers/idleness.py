"""What a site asks of its database when nobody calls and nobody listens."""

import asyncio
import json
from collections import Counter
from pathlib import Path

from bench.peers.target import Amounts, Target

SETTLE_SECONDS = 5.0
"""After the last call, until what that left is done."""
PER_SECONDS = 10.0
HEARTBEAT = 'UPDATE "mcp_app_process"'


async def statements(target: Target, amounts: Amounts) -> dict[str, float]:
    """Statements in 10 s: of the server processes, and of all others, which are the worker's, its heartbeats apart."""
    path = Path(target.statements)
    await asyncio.sleep(SETTLE_SECONDS)
    before = len(recorded(path))
    await asyncio.sleep(amounts.idle_seconds)
    servers = {server.pid for server in target.stack.servers}
    said = recorded(path)[before:]
    found = Counter("server" if pid in servers else _of_worker(statement) for pid, statement in said)
    return {what: found[what] * PER_SECONDS / amounts.idle_seconds for what in ("server", "heartbeats", "supervision")}


def _of_worker(statement: str) -> str:
    return "heartbeats" if statement.startswith(HEARTBEAT) else "supervision"


def recorded(path: Path) -> list[tuple[int, str]]:
    """Process id and statement, in their order."""
    if not path.exists():
        return []
    return [(pid, statement) for pid, statement in map(json.loads, path.read_text().splitlines())]
