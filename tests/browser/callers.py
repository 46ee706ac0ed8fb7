"""Clients that call the tools to be watched."""

from pathlib import Path
from typing import Any, Final

from tests.support.site import wire
from tests.support.site.inspector import Row
from tests.support.site.stack import Stack
from tests.support.site.wire import META, Connection
from tests.support.waiting import eventually

CLIENT: Final = {"name": "claude-code", "version": "2.1"}
DOCUMENTS: Final = 6000
"""So many that the work never ends by itself."""
PATIENCE: Final = 30.0


def call(
    stack: Stack, tool: str, client: dict[str, str] = CLIENT, *, user: str | None = None, **arguments: Any
) -> Connection:
    """Call a tool, with a token of `user` or as the anonymous caller."""
    meta = {META + "clientInfo": client, "progressToken": "watched"}
    headers = {"Authorization": f"Bearer {stack.ask('make token', user=user)}"} if user else None
    return stack.post(wire.message("tools/call", meta=meta, name=tool, arguments=arguments), headers=headers)


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
