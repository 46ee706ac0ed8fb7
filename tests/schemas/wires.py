"""The wires in this process: the ASGI application, and a stdio connection on real pipes."""

import json
from itertools import count
from typing import Any

from tests.schemas.judge import Received, Sent
from tests.schemas.play import Play, unanswered
from tests.support.asgi_client import Connection, message
from tests.support.stdio_client import Client, connect


class _Response(Connection):
    """The response to one HTTP request, message by message."""

    def __init__(self, sent: Sent) -> None:
        super().__init__(sent.http_method, headers={name.lower(): value for name, value in sent.headers.items()})

    async def receive(self, sent: Sent) -> Received:
        limit = sent.reads
        await self.head()
        received = Received(self.status, self.headers)
        received.is_stream = self.headers.get("content-type") == "text/event-stream"
        if not received.is_stream:
            body = await self.body()
            found = json.loads(body) if body else []
            received.messages = found if isinstance(found, list) else [found]
            return received
        while limit is None or len(received.messages) < limit:
            while b"\n\n" not in self._buffer and not self.finished:
                await self._more()
            frame, separator, self._buffer = self._buffer.partition(b"\n\n")
            if not separator:
                assert not frame
                return received
            self._take(frame, received)
            await _reply(frame, received, sent)
        received.complete = False
        return received

    @staticmethod
    def _take(frame: bytes, received: Received) -> None:
        fields = dict(line.split(": ", 1) for line in frame.decode().split("\n") if not line.startswith(":"))
        assert fields.keys() <= {"event", "data", "id", "retry"}
        if fields.get("data"):
            received.messages.append(json.loads(fields["data"]))
        if "id" in fields:
            received.headers["last-event-id"] = fields["id"]


async def over_http(play: Play) -> None:
    sent = next(play, None)
    while sent is not None:
        sent = _next(play, await _exchange(sent))


async def _exchange(sent: Sent) -> Received:
    response = _Response(sent)
    await response.send(sent.body)
    if sent.reads == 0 and sent.http_method == "POST":
        await response.leave()
        return Received(complete=False)
    received = await response.receive(sent)
    if not received.complete:
        await response.leave()
    return received


async def _reply(frame: bytes, received: Received, sent: Sent) -> None:
    """Answer the server's request in this frame, if there is one."""
    if b"data: {" not in frame or sent.reply is None or not {"method", "id"} <= received.messages[-1].keys():
        return
    for reply in sent.reply(received.messages[-1]):
        assert (await _exchange(reply)).status == 202


async def over_stdio(play: Play) -> None:
    async with connect() as client:
        sent = next(play, None)
        for number in count():
            if sent is None:
                return
            sent = _next(play, await _say(client, sent, f"sentinel {number}"))


async def _say(client: Client, sent: Sent, sentinel: str) -> Received:
    """Send a line, and receive messages until each id has a response.

    A request that is sent afterwards shows that no further message follows.
    """
    await client.send(sent.body + b"\n")
    left = sent.reads is not None
    waited: list[Any] = [] if left else unanswered(sent)
    for request_id in unanswered(sent) if left else ():
        await client.cancel(request_id)
    await client.send(message("server/discover", sentinel))
    received = Received(complete=not left)
    waited.append(sentinel)
    while waited:
        line = await client.receive()
        for found in line if isinstance(line, list) else [line]:
            await _take(client, found, sent)
            if "method" not in found and found.get("id") in waited:
                waited.remove(found["id"])
            if found.get("id") != sentinel:
                received.messages.append(found)
        if isinstance(line, dict) and "error" in line and "id" not in line:
            # The line could not be parsed, so nothing else follows for it.
            waited = [each for each in waited if each == sentinel]
    return received


async def _take(client: Client, found: dict[str, Any], sent: Sent) -> None:
    if sent.reply is not None and {"method", "id"} <= found.keys():
        for reply in sent.reply(found):
            await client.send(reply.body + b"\n")


def _next(play: Play, received: Received) -> Sent | None:
    try:
        return play.send(received)
    except StopIteration:
        return None
