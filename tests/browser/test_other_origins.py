"""A page of another origin calls the endpoint, as the Inspector's direct mode and web playgrounds do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.browser.chromium import PATIENCE_MS
from tests.support.site import layouts, wire

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ALLOWED: Final = "playground.localhost"
"""A name of this machine whose pages may not call the endpoint by default, even under `DEBUG`."""
FETCH: Final = """async ([url, method, headers, body]) => {
    try {
        const answer = await fetch(url, {method, headers, body: body && JSON.stringify(body)});
        return {
            status: answer.status,
            type: answer.headers.get("Content-Type"),
            session: answer.headers.get("Mcp-Session-Id"),
            challenge: answer.headers.get("WWW-Authenticate"),
            text: await answer.text(),
        };
    } catch (error) {
        return {failed: error.name};
    }
}"""
OLDER: Final = {"Content-Type": wire.JSON, "Accept": wire.BOTH}
INTRODUCTION: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}},
}


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>A client</title>")

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def pages() -> Iterator[int]:
    """Serve an empty page under any path, and yield the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """Yields the port of the pages, and the address of an endpoint that allows the pages of `ALLOWED`."""
    with pages() as port:
        settings: dict[str, Any] = {
            "ALLOWED_ORIGINS": [f"http://{ALLOWED}:{port}"],
            "ALLOW_ANONYMOUS": True,
            "AUTHENTICATOR": "mcp_app.auth.tokens.bearer",
        }
        with layouts.narrow(tmp_path_factory.mktemp("elsewhere"), **settings) as stack:
            yield port, f"http://127.0.0.1:{stack.servers[0].port}/mcp"


@contextmanager
def opened(browser: "Browser", address: str) -> "Iterator[Page]":
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto(address)
        yield page


def fetch(page: "Page", url: str, headers: dict[str, str], body: object = None, method: str = "POST") -> dict[str, Any]:
    answer: dict[str, Any] = page.evaluate(FETCH, [url, method, headers, body])
    return answer


def test_a_page_of_an_allowed_origin_is_a_client(browser: "Browser", elsewhere: tuple[int, str]) -> None:
    port, url = elsewhere
    with opened(browser, f"http://{ALLOWED}:{port}/") as page:
        call = wire.call("test_tool_with_progress")
        call["params"]["_meta"]["progressToken"] = "page"
        answer = fetch(page, url, wire.own_headers(call, wire.BOTH), call)
        assert (answer["status"], "text/event-stream" in answer["type"]) == (200, True), answer
        assert "Progress was reported three times." in answer["text"]

        refused = fetch(page, url, {**wire.own_headers(call, wire.BOTH), "Authorization": "Bearer of-nobody"}, call)
        assert (refused["status"], refused["challenge"].split()[0]) == (401, "Bearer"), refused

        begun = fetch(page, url, OLDER, INTRODUCTION)
        assert (begun["status"], bool(begun["session"])) == (200, True), begun
        own = {"Mcp-Session-Id": begun["session"], "MCP-Protocol-Version": "2025-11-25"}
        ended = fetch(page, url, own, method="DELETE")
        assert ended["status"] == 200, ended


def test_a_page_of_another_origin_reads_nothing(browser: "Browser", elsewhere: tuple[int, str]) -> None:
    port, url = elsewhere
    with opened(browser, f"http://other.localhost:{port}/") as page:
        call = wire.message("server/discover")
        assert fetch(page, url, wire.own_headers(call, wire.BOTH), call) == {"failed": "TypeError"}
        assert fetch(page, url, {}, method="GET") == {"failed": "TypeError"}
