"""A hostile client, which sends requests that are well formed, almost well formed, cut off, or noise."""

import asyncio
import json
import random
import time
from contextlib import suppress
from copy import deepcopy
from typing import Any

from tests.acceptance.crowds import Crowd
from tests.support.site.wire import message


class Hostile:
    """One hostile client; `seed` determines its requests."""

    ODD = [
        "",
        "\x00",
        "💥" * 300,
        "x" * 100_000,
        0,
        -1,
        10**300,
        1e308,
        True,
        None,
        [],
        {},
        [[[[[[]]]]]],
        {"a": {"b": []}},
    ]
    METHODS = [
        "tools/call",
        "tools/list",
        "initialize",
        "ping",
        "tasks/get",
        "tasks/cancel",
        "resources/read",
        "x" * 300,
    ]

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def odd(self) -> Any:
        """Return an odd value: a copy, so that changing one message changes no other, and none contains itself."""
        return deepcopy(self._random.choice(self.ODD))

    def message(self) -> bytes:
        choice = self._random.choice
        body: Any = message(choice(self.METHODS), self.odd() or 0)
        for _ in range(self._random.randrange(3)):
            body[choice(["id", "method", "params", "jsonrpc", "result"])] = self.odd()
        if isinstance(body["params"], dict):
            body["params"][choice(["name", "uri", "taskId", "arguments", "cursor", "_meta"])] = self.odd()
        if self._random.random() < 0.1:
            body = [body] * self._random.randrange(200)
        return json.dumps(body).encode()

    def request(self) -> bytes:
        """Return the bytes of a request, or of its beginning."""
        rnd = self._random
        body = self.message()
        fields = [
            b"Host: 127.0.0.1",
            b"Content-Type: " + rnd.choice([b"application/json", b"text/plain", b"application/json; charset=utf-16"]),
            b"MCP-Protocol-Version: " + rnd.choice([b"2026-07-28", b"2025-03-26", b"2025-11-25", b"9", b"\xff"]),
            b"Mcp-Method: " + rnd.choice(self.METHODS).encode()[:50],
        ]
        odd = rnd.choice([0, 0, 1, 5, 600])
        fields += [rnd.randbytes(rnd.randrange(1, 12)) + b": " + rnd.randbytes(rnd.randrange(40)) for _ in range(odd)]
        if rnd.random() < 0.2:
            fields.append(rnd.choice([b"Upgrade: websocket", b"Expect: 100-continue", b"Transfer-Encoding: chunked"]))
        if rnd.random() < 0.2:
            fields.append(b"Mcp-Session-Id: " + rnd.choice([b"0" * 32, b"%", b"x" * 9_000]))
        length = rnd.choice([len(body)] * 5 + [len(body) + 7, 0, 10**12, 10**400])
        line = rnd.choice(
            [b"POST /mcp HTTP/1.1"] * 6 + [b"GET /mcp HTTP/1.1", b"DELETE /mcp HTTP/1.1", b"\x00", b"A B C"]
        )
        whole = line + b"\r\n" + b"\r\n".join([*fields, b"Content-Length: %d" % length]) + b"\r\n\r\n" + body
        return whole[: rnd.randrange(len(whole))] if rnd.random() < 0.2 else whole

    async def run(self, crowd: Crowd, until: float) -> int:
        sent = 0
        while time.monotonic() < until:
            with suppress(OSError, TimeoutError):
                reader, _ = await crowd.send(self.request())
                sent += 1
                if self._random.random() < 0.7:
                    async with asyncio.timeout(0.3):
                        await reader.read(1_000)
            await crowd.leave()
        return sent
