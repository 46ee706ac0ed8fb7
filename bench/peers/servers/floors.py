"""Upper limits for a server: one fixed response from a bare ASGI application and from Channels' stock consumer."""

import os

from channels.generic.http import AsyncHttpConsumer

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}],"resultType":"complete"}}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(ANSWER)).encode())]


async def bare(scope, receive, send) -> None:
    """`bench.peers.servers.floors:bare`: reads the body, then sends the fixed response."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


class Stock(AsyncHttpConsumer):
    async def handle(self, body: bytes) -> None:
        await self.send_response(200, ANSWER, headers=HEADERS)


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.floor_settings")
consumer = Stock.as_asgi()
"""`bench.peers.servers.floors:consumer`."""
