"""The programs of docs/how-to/connect/python.md, with the official SDK."""

from tests.clients.pages.site import USER, PagesServer
from tests.clients.pages.terminal import Terminal
from tests.docs.pages import DOCS, snippet


def test_it_calls_a_tool_and_shows_its_progress(terminal: Terminal, server: PagesServer) -> None:
    (terminal.folder / "client.py").write_text(server.here(snippet("how-to/connect/python.md#call-it").text))
    assert terminal.type("python client.py").stdout == snippet("how-to/connect/python.md#call-it:2").text


def test_it_calls_with_a_token(terminal: Terminal, token_server: PagesServer) -> None:
    program = token_server.here(snippet("how-to/connect/python.md#with-a-token").text)
    (terminal.folder / "client_with_token.py").write_text(program)
    shown = terminal.type("python client_with_token.py", MCP_TOKEN=token_server.token)
    assert shown.stdout == f"Hello Ada, from {USER}!\n"


def test_it_starts_the_site(terminal: Terminal, server: PagesServer) -> None:
    site = server.here(snippet("how-to/connect/python.md#without-a-server").text)
    calling = snippet("how-to/connect/python.md#call-it").text
    address = '"http://127.0.0.1:8000/mcp"'
    assert address in calling
    (terminal.folder / "client.py").write_text(site + calling.replace(address, "site"))
    assert terminal.type("python client.py").stdout == snippet("how-to/connect/python.md#call-it:2").text


def test_a_client_without_a_token_ends_with_the_error_of_the_page(
    terminal: Terminal, token_server: PagesServer
) -> None:
    (terminal.folder / "client.py").write_text(token_server.here(snippet("how-to/connect/python.md#call-it").text))
    error = "MCPError: Server returned an error response"
    assert f"`{error}`" in (DOCS / "how-to/connect/python.md").read_text()
    assert error in terminal.type("! python client.py")
