"""The lines of docs/how-to/connect/claude-code.md, typed with Claude Code's own command."""

import json

import pytest

from tests.clients.pages.site import PagesServer
from tests.clients.pages.terminal import Terminal
from tests.docs.pages import path_of, snippet

PAGE = "how-to/connect/claude-code.md"


def listed(claude: Terminal, **environment: str) -> str:
    """Return the line of the site that `claude mcp list` prints, as the page has this command."""
    typed = claude.type(snippet("how-to/connect/claude-code.md#check-the-connection").text, **environment)
    [line] = [line for line in typed.lines if line.startswith("mysite: ")]
    return line


def test_it_connects(claude: Terminal, server: PagesServer) -> None:
    claude.type(server.here(snippet("how-to/connect/claude-code.md#add-the-site").text))
    assert listed(claude) == f"mysite: {server.url} (HTTP) - ✔ Connected"


def test_it_connects_with_a_token(claude: Terminal, token_server: PagesServer) -> None:
    claude.type(token_server.here(snippet("how-to/connect/claude-code.md#add-the-site:2").text))
    assert listed(claude) == f"mysite: {token_server.url} (HTTP) - ✔ Connected"


def test_with_the_scope_of_the_user_it_is_in_all_projects(claude: Terminal, server: PagesServer) -> None:
    line = server.here(snippet("how-to/connect/claude-code.md#add-the-site").text)
    claude.type(line.replace("mcp add", "mcp add --scope user"))
    assert "✔ Connected" in claude.type("claude mcp list", within=claude.home)


def test_a_team_shares_it_without_its_tokens(claude: Terminal, token_server: PagesServer) -> None:
    claude.type(token_server.here(snippet("how-to/connect/claude-code.md#share-it-with-your-team").text))
    shared = (claude.folder / ".mcp.json").read_text()
    assert "${MCP_TOKEN}" in shared
    assert "Pending approval" in listed(claude, MCP_TOKEN=token_server.token)
    approve(claude)
    assert listed(claude, MCP_TOKEN=token_server.token).endswith("✔ Connected")
    assert (claude.folder / ".mcp.json").read_text() == shared
    assert "Missing environment variables: MCP_TOKEN" in claude.type("claude mcp list")


def approve(claude: Terminal) -> None:
    """Answer the questions of the first `claude` in a project as its user does: both answers are in this file."""
    file = claude.home / ".claude.json"
    answers = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["mysite"]}
    file.write_text(json.dumps({**json.loads(file.read_text()), "projects": {str(claude.folder): answers}}))


def test_it_starts_the_site(claude: Terminal, server: PagesServer) -> None:
    claude.type(server.here(snippet("how-to/connect/claude-code.md#without-a-server").text))
    assert listed(claude).endswith("manage.py mcp stdio --settings=mysite.settings - ✔ Connected")


def test_the_server_prints_these_lines(server: PagesServer, token_server: PagesServer) -> None:
    assert snippet("how-to/connect/claude-code.md#add-the-site").text in server.printed
    assert snippet("how-to/connect/claude-code.md#add-the-site:2").text in token_server.printed
    assert snippet("how-to/connect/claude-code.md#without-a-server").text in server.printed


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("", "Dynamic Client Registration rejected"),
        (
            '--header "Authorization: Bearer wrong"',
            "Server rejected the configured Authorization header (HTTP 401)",
        ),
    ],
    ids=["none", "wrong"],
)
def test_the_page_has_the_reasons_for_which_it_does_not_connect(
    claude: Terminal, token_server: PagesServer, option: str, reason: str
) -> None:
    claude.type(f"claude mcp add --transport http mysite {token_server.url} {option}")
    assert reason in listed(claude)
    for each in (reason, "Pending approval", "Missing environment variables: MCP_TOKEN"):
        assert f"`{each}`" in path_of(PAGE).read_text()
    claude.type("claude mcp remove mysite")
    claude.type(token_server.here(snippet("how-to/connect/claude-code.md#add-the-site:2").text))
    assert listed(claude).endswith("✔ Connected")
