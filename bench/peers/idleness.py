"""Counts the statements that an idle site sends to its database."""

import asyncio
import json
from collections import Counter
from pathlib import Path

from bench.peers.target import Amounts, Target

SETTLE_SECONDS = 5.0
"""The pause after the last call, in which its remaining work is done."""
PER_SECONDS = 10.0
HEARTBEAT = 'UPDATE "mcp_app_process"'


async def statements(target: Target, amounts: Amounts) -> dict[str, float]:
    """Return the statements in 10 s of the server processes, of heartbeats, and of supervision.

    The last two are statements of the worker: its updates of `mcp_app_process`, and all others.
    """
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
    """Return the process id and the text of each recorded statement, in order."""
    if not path.exists():
        return []
    return [(pid, statement) for pid, statement in map(json.loads, path.read_text().splitlines())]
