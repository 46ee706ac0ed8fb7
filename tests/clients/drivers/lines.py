"""The driver's side of the protocol with a test, in Python. `lines.mjs` describes the protocol."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

Report = Callable[..., None]
"""Sends a message that a line causes before its reply."""
Action = Callable[..., Awaitable[object]]
"""Takes a line's details as keyword arguments, and `report`. Returns the value of the reply."""

connection: dict[str, Any] = json.loads(sys.argv[1])


def tell(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def serve(version: str, actions: Mapping[str, Action]) -> None:
    """Perform the action of each line concurrently, until the end of input."""
    tell(opened={"version": version})
    doing: dict[int, asyncio.Task[None]] = {}
    async for line in _lines():
        asked = json.loads(line)
        number, name, details = asked["id"], asked["do"], asked["with"]
        if name == "cancel":
            doing[details["of"]].cancel()
        else:
            doing[number] = asyncio.create_task(_do(number, actions[name], details))


async def _do(number: int, action: Action, details: Mapping[str, Any]) -> None:
    def report(**message: Any) -> None:
        tell(of=number, **message)

    try:
        tell(id=number, value=await action(report=report, **details))
    except asyncio.CancelledError:
        tell(id=number, error="cancelled")
    except Exception as error:
        tell(id=number, error=f"{type(error).__name__}: {error}")


async def _lines() -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line
