"""The lines of docs/how-to/connect/gemini-cli.md, typed with Gemini CLI's own command."""

import json

import pytest

from tests.clients.pages.site import PagesServer
from tests.clients.pages.terminal import Terminal
from tests.docs.pages import snippet


def listed(gemini: Terminal, **environment: str) -> str:
    """Return the line of the site that `gemini mcp list` prints, as the page has this command."""
    typed = gemini.type(snippet("how-to/connect/gemini-cli.md#check-the-connection").text, **environment)
    [line] = [line for line in typed.lines if " mysite: " in line]
    return line


def trust(gemini: Terminal) -> None:
    """Write the file that *Trust folder* writes in the first session of a folder."""
    (gemini.home / ".gemini").mkdir(exist_ok=True)
    (gemini.home / ".gemini/trustedFolders.json").write_text(json.dumps({str(gemini.folder): "TRUST_FOLDER"}))


@pytest.fixture
def trusting(gemini: Terminal) -> Terminal:
    trust(gemini)
    return gemini


def test_it_connects(trusting: Terminal, server: PagesServer) -> None:
    trusting.type(server.here(snippet("how-to/connect/gemini-cli.md#add-the-site").text))
    assert listed(trusting) == f"✓ mysite: {server.url} (http) - Connected"


def test_it_connects_with_a_token(trusting: Terminal, token_server: PagesServer) -> None:
    trusting.type(token_server.here(snippet("how-to/connect/gemini-cli.md#add-the-site:2").text))
    assert "$MCP_TOKEN" in (trusting.folder / ".gemini/settings.json").read_text()
    assert listed(trusting, MCP_TOKEN=token_server.token).endswith("- Connected")
    assert listed(trusting, MCP_TOKEN="wrong").endswith("- Disconnected")
    assert listed(trusting).endswith("- Disconnected")


def test_with_the_scope_of_the_user_it_is_in_all_projects(trusting: Terminal, server: PagesServer) -> None:
    line = server.here(snippet("how-to/connect/gemini-cli.md#add-the-site").text)
    trusting.type(line.replace("mcp add", "mcp add --scope user"), within=trusting.home)
    assert listed(trusting).endswith("- Connected")


def test_in_a_folder_that_is_not_trusted_it_connects_to_no_server(gemini: Terminal, server: PagesServer) -> None:
    gemini.type(server.here(snippet("how-to/connect/gemini-cli.md#add-the-site").text))
    assert listed(gemini).endswith("- Disabled")
    gemini.type("gemini mcp add other echo")
    assert "mysite" not in gemini.type("gemini mcp list")


def test_it_starts_the_site(trusting: Terminal, server: PagesServer) -> None:
    trusting.type(server.here(snippet("how-to/connect/gemini-cli.md#without-a-server").text))
    assert listed(trusting).endswith("manage.py mcp stdio --settings=mysite.settings (stdio) - Connected")
