"""`mcp_application` in front of any ASGI application: other requests reach the site unchanged."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from asgiref.wsgi import WsgiToAsgi
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ChannelNameRouter, ProtocolTypeRouter, URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application
from django.urls import path

from mcp_app.routing import mcp_application

HEARD: list[Any] = []


class Echo(AsyncWebsocketConsumer):
    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        await self.send(text_data)


async def worker_channel(scope: Any, receive: Any, send: Any) -> None:
    HEARD.append(await receive())


async def function(scope: Any, receive: Any, send: Any) -> None:
    """A plain ASGI function with its own WebSockets and lifespan."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            HEARD.append("started")
            await send({"type": "lifespan.startup.complete"})
        HEARD.append("ended")
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
    else:
        await page(scope, receive, send)


async def page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the site"})


def wsgi_page(environ: Any, start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"the site"]


ROUTERS = ProtocolTypeRouter(
    {
        "http": URLRouter([path("page", page)]),
        "websocket": URLRouter([path("ws/", Echo.as_asgi()), path("mcp", Echo.as_asgi())]),
        "channel": ChannelNameRouter({"thumbnails": worker_channel}),
    }
)
SITES = {"routers": ROUTERS, "function": function, "static files": ASGIStaticFilesHandler(ROUTERS)}


def get(application: Any, address: str) -> bytes:
    async def scenario() -> bytes:
        scope = {"type": "http", "http_version": "1.1", "method": "GET", "path": address}
        scope |= {"query_string": b"", "headers": []}
        client = ApplicationCommunicator(application, scope)
        await client.send_input({"type": "http.request"})
        await client.receive_output(5)
        body = bytes((await client.receive_output(5))["body"])
        await client.wait(5)  # the thread of a WSGI application would wait for ever, because its loop has ended
        return body

    return asyncio.run(scenario())


@pytest.mark.parametrize("site", SITES.values(), ids=SITES)
@pytest.mark.parametrize("address", ["/ws/", "/mcp"])
async def test_websockets_reach_the_site(site: Any, address: str) -> None:
    client = WebsocketCommunicator(mcp_application(site), address)
    assert (await client.connect())[0]
    await client.send_to("hello")
    assert await client.receive_from() == "hello"
    await client.disconnect()


async def test_messages_to_channels_workers_reach_the_site() -> None:
    scope = {"type": "channel", "channel": "thumbnails"}
    client = ApplicationCommunicator(mcp_application(ROUTERS), scope)
    await client.send_input({"type": "make"})
    await client.wait(5)
    assert HEARD.pop() == {"type": "make"}


@pytest.mark.parametrize("site", [ROUTERS, function, WsgiToAsgi(wsgi_page)], ids=["routers", "function", "WSGI"])
def test_pages_reach_the_site(site: Any) -> None:
    assert get(mcp_application(site), "/page") == b"the site"


def lifespan(site: Any) -> tuple[list[str], Exception | None]:
    """Start and end a process of that application. Return its messages and its failure."""

    async def scenario() -> tuple[list[str], Exception | None]:
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
        said: list[str] = []

        async def receive() -> dict[str, str]:
            return next(messages)

        async def send(message: dict[str, str]) -> None:
            said.append(message["type"])

        try:
            await mcp_application(site)({"type": "lifespan", "asgi": {}}, receive, send)
        except OSError as error:
            return said, error
        return said, None

    return asyncio.run(scenario())


COMPLETE = ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_sites_own_lifespan_runs_inside_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drain() -> None:
        HEARD.append("drained")

    monkeypatch.setattr("mcp_app.transport.shutdown.drain", drain)
    HEARD.clear()
    assert lifespan(function) == (COMPLETE, None)
    assert HEARD == ["started", "drained", "ended"]


async def returns_at_once(scope: Any, receive: Any, send: Any) -> None:
    """Return at once, as a function does that serves requests only."""


async def takes_the_start_and_returns(scope: Any, receive: Any, send: Any) -> None:
    await receive()


async def answers_the_start_and_returns(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})


WITHOUT_LIFESPAN = {
    "django": get_asgi_application(),
    "routers": ROUTERS,
    "WSGI": WsgiToAsgi(wsgi_page),
    "returns": returns_at_once,
    "takes the start": takes_the_start_and_returns,
    "answers the start": answers_the_start_and_returns,
}


@pytest.mark.parametrize("site", WITHOUT_LIFESPAN.values(), ids=WITHOUT_LIFESPAN)
def test_site_without_a_lifespan_has_one_that_drains(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drained = []

    async def drain() -> None:
        drained.append(True)

    monkeypatch.setattr("mcp_app.transport.shutdown.drain", drain)
    assert lifespan(site) == (COMPLETE, None)
    assert drained == [True]


async def cannot_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    raise ConnectionError("the site's pool is not reachable")


async def says_that_it_cannot_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no pool"})


def test_failure_of_the_sites_start_is_the_servers_to_judge() -> None:
    said, error = lifespan(cannot_start)
    assert (said, str(error)) == ([], "the site's pool is not reachable")
    assert lifespan(says_that_it_cannot_start) == (["lifespan.startup.failed"], None)
