"""Clients that call the tools to be watched."""

from pathlib import Path
from typing import Any, Final

from tests.acceptance import wire
from tests.acceptance.inspector import Row
from tests.acceptance.stack import Stack
from tests.acceptance.waiting import eventually
from tests.acceptance.wire import META, Connection

CLIENT: Final = {"name": "claude-code", "version": "2.1"}
DOCUMENTS: Final = 6000
"""So many that the work never ends by itself."""
PATIENCE: Final = 30.0


def call(stack: Stack, tool: str, client: dict[str, str] = CLIENT, **arguments: Any) -> Connection:
    meta = {META + "clientInfo": client, "progressToken": "watched"}
    return stack.post(wire.message("tools/call", meta=meta, name=tool, arguments=arguments))


def start_indexing(stack: Stack, steps: Path) -> tuple[Connection, Row]:
    """A call in the middle of its work; for each document a line is added to the file."""
    calling = call(stack, "index_documents", path=str(steps), documents=DOCUMENTS)
    eventually(steps.exists, "it takes a step", PATIENCE)
    return calling, stack.running(calling)


def ended(stack: Stack, calling: Connection) -> Row:
    return stack.ended(calling, PATIENCE)


def answer(calling: Connection) -> str:
    """What the client of a tool is told in the end."""
    return wire.text(calling.result())
