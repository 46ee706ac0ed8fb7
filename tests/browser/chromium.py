"""Debian's Chromium, driven by Playwright; or the reason why there is none.

Playwright is imported here and only when it is used: the basic tests collect this folder without it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS: Final = 30_000


class BrowserMissingError(Exception):
    """There is no browser, or nothing to drive it; the text says which."""


@contextmanager
def launched() -> "Iterator[Browser]":
    """A headless browser with a profile of its own. Raises BrowserMissingError."""
    try:
        from playwright.sync_api import expect, sync_playwright
    except ImportError as error:
        raise BrowserMissingError("playwright is not installed: pip install -r .ci/requirements.txt") from error
    if not (executable := shutil.which("chromium")):
        raise BrowserMissingError("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS, headless=True)
        try:
            yield browser
        finally:
            browser.close()


def expect(actual: Any) -> Any:
    """Playwright's `expect`, by its own name in tests."""
    from playwright import sync_api

    return sync_api.expect(actual)
