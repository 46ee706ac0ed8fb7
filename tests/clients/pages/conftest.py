"""The site of the pages, and a terminal for each client. A client that is not installed is skipped loudly."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.conftest import missing
from tests.clients.pages import site
from tests.clients.pages.site import PagesServer, PagesSite
from tests.clients.pages.terminal import COMMANDS, Terminal
from tests.clients.programs import DRIVERS
from tests.support.site.inspector import ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def pages_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesSite]:
    with site.opened(tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("logs")) as pages_site:
        yield pages_site


@pytest.fixture(scope="session")
def server(pages_site: PagesSite) -> PagesServer:
    """Returns a server that accepts calls without a token from this machine."""
    return pages_site.serve()


@pytest.fixture(scope="session")
def token_server(pages_site: PagesSite) -> PagesServer:
    """Returns a server that accepts only calls with a token."""
    return pages_site.serve_with_tokens()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def _require(command: str) -> None:
    if not (COMMANDS / command).exists():
        install = (DRIVERS / "install").relative_to(ROOT)
        missing(f"{(COMMANDS / command).relative_to(ROOT)} is not there; {install} puts it there")


@pytest.fixture
def claude(terminal: Terminal) -> Terminal:
    _require("claude")
    return terminal


@pytest.fixture
def gemini(terminal: Terminal) -> Terminal:
    _require("gemini")
    return terminal


@pytest.fixture
def inspector(terminal: Terminal) -> Terminal:
    _require("mcp-inspector")
    if shutil.which("npx") is None:
        missing("npx is not there; it comes with npm")
    return terminal
