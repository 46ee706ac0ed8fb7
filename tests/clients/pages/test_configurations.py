"""The configuration files of docs/how-to/connect for clients that cannot run here.

The official Python client connects to the site as each file describes it, after the placeholders in the client's own
syntax are replaced. `mcp serve` must print the same files.
"""

import asyncio
import json
import re
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from tests.clients.pages.site import USER, PagesServer
from tests.docs.pages import Snippet, snippet

Entry = dict[str, Any]


def file(block: Snippet, server: PagesServer, **placeholders: str) -> dict[str, Any]:
    """Return the file in this block for a server of the tests. `placeholders`: the values that the client puts in."""
    text = server.here(block.text)
    for name, value in placeholders.items():
        assert f"${{{name}}}" in text
        text = text.replace(f"${{{name}}}", value)
    assert "${" not in text
    content: dict[str, Any] = json.loads(text)
    return content


def greeting(entry: Entry) -> str:
    """Connect as one entry describes, and return the answer of the site's tool."""
    return asyncio.run(_greeting(entry))


async def _greeting(entry: Entry) -> str:
    if "command" in entry:
        assert entry.keys() <= {"type", "command", "args"}
        return await _greeted(Client(StdioServerParameters(command=entry["command"], args=entry["args"])))
    assert entry.keys() <= {"type", "url", "headers"}
    async with create_mcp_http_client(headers=entry.get("headers")) as http:
        return await _greeted(Client(streamable_http_client(entry["url"], http_client=http)))


async def _greeted(connecting: Client) -> str:
    async with connecting as client:
        [content] = (await client.call_tool("greet", {"name": "Ada"})).content
        return str(getattr(content, "text", ""))


def printed(server: PagesServer, label: str) -> dict[str, Any]:
    """Return the file that `mcp serve` prints for a client."""
    match = re.search(rf"^{label} +\S+ +(\{{.*\}})$", server.printed, re.MULTILINE)
    assert match, server.printed
    content: dict[str, Any] = json.loads(match[1])
    return content


def test_vs_code(server: PagesServer, token_server: PagesServer) -> None:
    plain = snippet("how-to/connect/vscode.md#add-the-site")
    with_token = snippet("how-to/connect/vscode.md#add-the-site:2")
    assert greeting(file(plain, server)["servers"]["mysite"]) == "Hello Ada, from somebody!"
    asking = file(with_token, token_server, **{"input:mysite-token": token_server.token})
    assert greeting(asking["servers"]["mysite"]) == f"Hello Ada, from {USER}!"
    [question] = asking.pop("inputs")
    assert (question["id"], question["password"]) == ("mysite-token", True)
    assert printed(server, "VS Code") == json.loads(plain.text)
    shown = json.loads(with_token.text.replace("${input:mysite-token}", "TOKEN"))
    assert printed(token_server, "VS Code") == {"servers": shown["servers"]}


def test_vs_code_starts_the_site(server: PagesServer) -> None:
    entry = file(snippet("how-to/connect/vscode.md#without-a-server"), server)["servers"]["mysite"]
    assert entry["type"] == "stdio"
    assert greeting(entry) == "Hello Ada, from somebody!"


def test_cursor(server: PagesServer, token_server: PagesServer) -> None:
    plain = snippet("how-to/connect/cursor.md#add-the-site")
    with_token = snippet("how-to/connect/cursor.md#add-the-site:2")
    assert greeting(file(plain, server)["mcpServers"]["mysite"]) == "Hello Ada, from somebody!"
    entry = file(with_token, token_server, **{"env:MCP_TOKEN": token_server.token})["mcpServers"]["mysite"]
    assert greeting(entry) == f"Hello Ada, from {USER}!"
    assert printed(server, "Cursor") == json.loads(plain.text)
    assert printed(token_server, "Cursor") == json.loads(with_token.text.replace("${env:MCP_TOKEN}", "TOKEN"))


def test_cursor_starts_the_site(server: PagesServer) -> None:
    entry = file(snippet("how-to/connect/cursor.md#without-a-server"), server)["mcpServers"]["mysite"]
    assert greeting(entry) == "Hello Ada, from somebody!"


def test_claude_desktop_starts_the_site(server: PagesServer) -> None:
    block = snippet("how-to/connect/claude-desktop.md#a-site-on-your-computer")
    assert greeting(file(block, server)["mcpServers"]["mysite"]) == "Hello Ada, from somebody!"
    entry = json.loads(block.text)["mcpServers"]["mysite"]
    command = " ".join([entry["command"], *entry["args"]])
    assert re.search(rf"^stdio +claude mcp add mysite -- {re.escape(command)}$", server.printed, re.MULTILINE)


def test_claude_desktop_names_a_user(server: PagesServer) -> None:
    entry = file(snippet("how-to/connect/claude-desktop.md#a-site-on-your-computer"), server)["mcpServers"]["mysite"]
    assert greeting({**entry, "args": [*entry["args"], "--user", USER]}) == f"Hello Ada, from {USER}!"
