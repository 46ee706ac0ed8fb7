"""Starts Debian's Chromium with Playwright, or reports why it cannot.

Playwright is imported only when it is used, because the basic tests collect this folder without it.
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
    """Chromium or Playwright is not installed. The message names the missing one."""


@contextmanager
def launched() -> "Iterator[Browser]":
    """Yield a headless browser with a new profile. Raises `BrowserMissingError`."""
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
    """Call Playwright's `expect`, which this module imports only when it is used."""
    from playwright import sync_api

    return sync_api.expect(actual)
