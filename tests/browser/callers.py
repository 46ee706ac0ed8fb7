"""Clients that call tools, whose requests the admin then shows."""

from pathlib import Path
from typing import Any, Final

from tests.support.site import wire
from tests.support.site.inspector import Row
from tests.support.site.stack import Stack
from tests.support.site.wire import META, Connection
from tests.support.waiting import eventually

CLIENT: Final = {"name": "claude-code", "version": "2.1"}
DOCUMENTS: Final = 6000
"""Enough that the work does not end during a test."""
PATIENCE: Final = 30.0


def call(
    stack: Stack, tool: str, client: dict[str, str] = CLIENT, *, user: str | None = None, **arguments: Any
) -> Connection:
    """Call a tool, with a token of `user` or as the anonymous caller."""
    meta = {META + "clientInfo": client, "progressToken": "watched"}
    headers = {"Authorization": f"Bearer {stack.ask('make token', user=user)}"} if user else None
    return stack.post(wire.message("tools/call", meta=meta, name=tool, arguments=arguments), headers=headers)


def start_indexing(stack: Stack, steps: Path) -> tuple[Connection, Row]:
    """Return a call in the middle of its work. It appends a line to the file `steps` for each document."""
    calling = call(stack, "index_documents", path=str(steps), documents=DOCUMENTS)
    eventually(steps.exists, "it takes a step", PATIENCE)
    return calling, stack.running(calling)


def ended(stack: Stack, calling: Connection) -> Row:
    return stack.ended(calling, PATIENCE)


def answer(calling: Connection) -> str:
    """Return the text of the tool's result."""
    return wire.text(calling.result())


def assert_told_cancelled(calling: Connection, reason: str) -> None:
    """Check that the client reads that an administrator cancelled the call, and why."""
    told = answer(calling)
    assert all(fact in told for fact in ("cancelled", "administrator", reason)), told
