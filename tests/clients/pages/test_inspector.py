"""The lines of docs/how-to/connect/inspector.md, typed with the MCP Inspector."""

import json
import re
import socket
from urllib.request import urlopen

import pytest

from tests.clients.pages.site import USER, PagesServer
from tests.clients.pages.terminal import PATIENCE, Terminal
from tests.docs.pages import snippet
from tests.docs.samples import same
from tests.support.site.programs import Program

TOOLS = {"greet", "count"}


def tools(stdout: str) -> set[str]:
    return {tool["name"] for tool in json.loads(stdout)["tools"]}


def text(stdout: str) -> str:
    return str(json.loads(stdout)["content"][0]["text"])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_it_lists_and_calls(inspector: Terminal, server: PagesServer) -> None:
    listing, calling = server.here(snippet("how-to/connect/inspector.md#in-a-terminal").text).splitlines()
    assert tools(inspector.type(listing).stdout) == TOOLS
    same(snippet("how-to/connect/inspector.md#in-a-terminal:2"), inspector.type(calling).stdout)


def test_it_calls_with_a_token(inspector: Terminal, token_server: PagesServer) -> None:
    line = token_server.here(snippet("how-to/connect/inspector.md#in-a-terminal:3").text)
    assert text(inspector.type(line).stdout) == f"Hello Ada, from {USER}!"


def test_it_uses_the_newest_revision(inspector: Terminal, server: PagesServer) -> None:
    line = server.here(snippet("how-to/connect/inspector.md#in-a-terminal:4").text)
    shown = inspector.type(line).stdout
    assert text(shown) == "Hello Ada, from somebody!"
    assert json.loads(shown)["resultType"] == "complete"  # results of older revisions do not have this member


def test_it_starts_the_site(inspector: Terminal, server: PagesServer) -> None:
    line = server.here(snippet("how-to/connect/inspector.md#in-a-terminal:5").text)
    assert tools(inspector.type(line).stdout) == TOOLS


@pytest.mark.parametrize(
    ("has", "instead", "status"),
    [("", "", 0), ("name=Ada", "nam=Ada", 5), ("Authorization: Bearer", "X-Unused:", 3)],
    ids=["succeeds", "tool fails", "no token"],
)
def test_its_exit_status_is_the_outcome(
    inspector: Terminal, token_server: PagesServer, has: str, instead: str, status: int
) -> None:
    line = token_server.here(snippet("how-to/connect/inspector.md#in-a-terminal:3").text).strip()
    assert has in line
    typed = inspector.type(f'{line.replace(has, instead) if has else line} || status=$?; echo "status ${{status:-0}}"')
    assert typed.lines.count(f"status {status}") == 1


def test_it_serves_a_page(inspector: Terminal, server: PagesServer) -> None:
    line = server.here(snippet("how-to/connect/inspector.md#in-a-browser").text)
    ports = {"CLIENT_PORT": str(free_port()), "MCP_SANDBOX_PORT": str(free_port())}
    environment = {**inspector.environment, **ports}
    program = Program(["bash", "-euc", line], environment, inspector.home / "log", cwd=inspector.folder)
    address = program.says(r"up and running at:\s+(http://\S+MCP_INSPECTOR_API_TOKEN=\S+)")[1]
    with urlopen(address, timeout=PATIENCE) as page:
        assert re.search("<title>.*Inspector", page.read().decode())
    program.interrupt()
    program.wait()
