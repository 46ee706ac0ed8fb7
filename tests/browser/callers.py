"""Clients that call the tools to be watched."""

from pathlib import Path

from tests.acceptance import wire
from tests.acceptance.inspector import Row
from tests.acceptance.stack import Stack
from tests.acceptance.waiting import eventually
from tests.acceptance.wire import META, Connection

CLIENT = {"name": "claude-code", "version": "2.1"}
DOCUMENTS = 6000
"""So many that the work never ends by itself."""
PATIENCE = 30.0


def call(stack: Stack, tool: str, client: object = None, **arguments: object) -> Connection:
    body = wire.message(
        "tools/call",
        name=tool,
        arguments=arguments,
        meta={META + "clientInfo": client or CLIENT, "progressToken": "watched"},
    )
    return stack.post(body)


def start_indexing(stack: Stack, steps: Path, documents: int = DOCUMENTS) -> tuple[Connection, Row]:
    """A call in the middle of its work; for each document a line is added to the file."""
    calling = call(stack, "index_documents", path=str(steps), documents=documents)
    eventually(steps.exists, "it takes a step", PATIENCE)
    return calling, stack.running(calling)


def ended(stack: Stack, calling: Connection) -> Row:
    return stack.ended(calling, PATIENCE)
