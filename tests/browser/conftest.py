"""One site and one browser for all tests here. A test fails if the console of its page has a warning or an error."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.conftest import pytest_runtest_makereport  # noqa: F401 - shows the output of the site's programs
from tests.browser.chromium import PATIENCE_MS, BrowserMissingError, launched
from tests.browser.users import PASSWORD, USERS
from tests.support.site import layouts
from tests.support.site.stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, StorageState

SETTINGS = "tests.browser.settings"
WINDOW = {"width": 1280, "height": 800}

Browse = Callable[..., "Page"]
Picture = Callable[[str, "Page | Locator"], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(180))


# Not for the whole session, because Playwright keeps an event loop in this thread while it runs.
@pytest.fixture(scope="package")
def browser() -> "Iterator[Browser]":
    try:
        with launched() as browser:
            yield browser
    except BrowserMissingError as error:
        why = f"NO BROWSER, the admin's browser tests did not run: {error}"
        if os.environ.get("MCP_REQUIRE_BROWSER") == "1":
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture(scope="package", name="running_stack")
def _running_stack(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with layouts.embedded(tmp_path_factory.mktemp("site"), SETTINGS) as stack:
        for name, permissions in USERS.items():
            stack.ask("make user", name=name, password=PASSWORD, permissions=permissions)
        yield stack


@pytest.fixture
def stack(running_stack: Stack) -> Iterator[Stack]:
    yield running_stack
    running_stack.settle()


@pytest.fixture(scope="package")
def base_url(running_stack: Stack) -> str:
    return f"http://127.0.0.1:{running_stack.servers[0].port}"


@pytest.fixture(scope="package")
def log_in(browser: "Browser", base_url: str) -> "Callable[[str], StorageState]":
    """Returns a function that returns a user's cookies. Each user logs in once."""
    states: dict[str, StorageState] = {}

    def state(user: str) -> "StorageState":
        if user not in states:
            with browser.new_context(base_url=base_url) as context:
                context.set_default_timeout(PATIENCE_MS)
                page = context.new_page()
                page.goto("/admin/")
                page.get_by_label("Username").fill(user)
                page.get_by_label("Password").fill(PASSWORD)
                page.get_by_role("button", name="Log in").click()
                page.get_by_role("button", name="Log out").wait_for()
                states[user] = context.storage_state()
        return states[user]

    return state


@pytest.fixture
def browse(
    browser: "Browser", stack: Stack, base_url: str, log_in: "Callable[[str], StorageState]"
) -> Iterator[Browse]:
    """Yields a function that opens a page of the site as a user: `browse("auditor", color_scheme="dark")`.

    After a click, a test must wait for the next page before it ends. Otherwise the context never closes.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(user: str, **options: Any) -> "Page":
        settings = {"viewport": WINDOW, "base_url": base_url, "reduced_motion": "reduce", **options}
        context = browser.new_context(storage_state=log_in(user), **settings)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        collect_complaints(context, complaints)
        return context.new_page()

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def picture() -> Picture:
    """Returns a function that stores a picture of a page or a part of it, if `MCP_PICTURES` names a folder."""
    folder = os.environ.get("MCP_PICTURES")

    def take(name: str, shown: "Page | Locator") -> None:
        if folder:
            shown.screenshot(path=Path(folder) / f"{name}.png", animations="disabled", caret="hide")

    return take


def collect_complaints(context: "BrowserContext", complaints: list[str]) -> None:
    """Collect what a page must not cause: script errors, warnings (such as violations of the policy), dialogs."""

    def on_console(message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"{message.type}: {message.text} {message.location}")

    context.on("console", on_console)
    context.on("weberror", lambda error: complaints.append(f"error: {error.error}"))
    context.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """Returns the path of the file that a tool writes."""
    return tmp_path / "steps"
