"""A tiny ASGI application behind the embedded server, which prints one line for each event."""

# ruff: noqa: T201  (its output is what the test reads)

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

from mcp_app.embedded.extensions import UNSENT_BYTES
from mcp_app.embedded.server import EmbeddedServer, ListenError

PAGE = bytes(1_000_000)


def say(*words: object) -> None:
    print(*words, flush=True)


async def reply(send: Any, body: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"X-App", b"tiny")]})
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def application(scope: Any, receive: Any, send: Any) -> None:
    path = scope["path"]
    if path == "/scope":
        names = [name.decode() for name, _ in scope["headers"]]
        return await reply(
            send, json.dumps({"root_path": scope["root_path"], "names": names, "client": scope["client"]}).encode()
        )
    if path == "/raise":
        await reply(send, b"begun", more=True)
        raise RuntimeError("after the headers")
    if path == "/flood":
        await reply(send, b"", more=True)
        unsent = scope["extensions"][UNSENT_BYTES]
        while not unsent():
            await send({"type": "http.response.body", "body": PAGE, "more_body": True})
            await asyncio.sleep(0)
        say("unsent", unsent())
        return await send({"type": "http.response.body", "body": b"", "more_body": False})
    if path == "/pages":
        return await write_pages(send)
    if path == "/wait":
        return await wait(receive, send)
    if path == "/inherited":
        child = subprocess.run(["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True)  # noqa: ASYNC221
        return await reply(send, child.stdout)
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            return await reply(send, str(size).encode())


async def write_pages(send: Any) -> None:
    """Send 64 MB, and print a line if the client reads too slowly."""
    await reply(send, b"", more=True)
    for number in range(64):
        writing = asyncio.ensure_future(send({"type": "http.response.body", "body": PAGE, "more_body": True}))
        if not (await asyncio.wait([writing], timeout=0.5))[0]:
            say("held", number)
            await writing
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    say("written")


async def wait(receive: Any, send: Any) -> None:
    """Stream until the client disconnects or the server drains."""
    await reply(send, b"open", more=True)
    say("waiting")
    message = await receive()
    try:
        while message["type"] != "http.disconnect":
            message = await receive()
        say("disconnected")
    except asyncio.CancelledError:
        say("cancelled")
        raise


async def drain() -> None:
    say("draining")
    await asyncio.sleep(float(os.environ.get("DRAIN_SECONDS", "0")))
    say("drained")


LIMITS = {"max_held_bytes": int, "max_connections": int, "head_timeout": float, "body_timeout": float}


def main() -> None:
    server = EmbeddedServer(
        application,
        os.environ.get("HOST", "127.0.0.1"),
        int(sys.argv[1]),
        max_body_bytes=100_000,
        vanished_after=float(os.environ.get("VANISHED_AFTER", "30")),
        ready_callable=lambda host, port: say("ready", port),
        drain=drain,
        drain_seconds=15.0,
        **{name: of(os.environ[name.upper()]) for name, of in LIMITS.items() if name.upper() in os.environ},
    )
    try:
        server.listen()
    except ListenError as error:
        sys.exit(str(error))
    server.run()
    say("ended")


if __name__ == "__main__":
    main()
