"""A tiny ASGI application behind the embedded server; prints one line for everything that happens."""

# ruff: noqa: T201  (its output is what the test reads)

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

from mcp_app.embedded.extensions import UNSENT_BYTES
from mcp_app.embedded.server import EmbeddedServer, ListenError


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
        for _ in range(64):
            await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
            await asyncio.sleep(0)
        say("unsent", scope["extensions"][UNSENT_BYTES]())
        return await send({"type": "http.response.body", "body": b"", "more_body": False})
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


async def wait(receive: Any, send: Any) -> None:
    """A stream that is open until its client goes or the server drains."""
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


def main() -> None:
    server = EmbeddedServer(
        application,
        "127.0.0.1",
        int(sys.argv[1]),
        max_body_bytes=100_000,
        ready_callable=lambda host, port: say("ready", port),
        drain=drain,
        drain_seconds=15.0,
    )
    try:
        server.listen()
    except ListenError as error:
        sys.exit(str(error))
    server.run()
    say("ended")


if __name__ == "__main__":
    main()
