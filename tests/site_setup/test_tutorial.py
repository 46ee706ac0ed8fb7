"""Follows docs/tutorial.md literally, with two terminals and the admin.

Three values are replaced: the virtual environment (`installed`), the port 8000, and the password that the site prints.
"""

import re
import signal
from collections.abc import Callable, Iterator
from functools import cached_property
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.test_systemd import free_port
from tests.management.terminals import CTRL_C, ENTER, Terminal, what_stays
from tests.site_setup import steps
from tests.site_setup.conftest import Site
from tests.site_setup.steps import File, Seen, Shell
from tests.support.site.browsing import Browser
from tests.support.waiting import eventually

PATIENCE: Final = 180.0
COLUMNS: Final = 400
CANCELLATIONS: Final = "/admin/mcp_app/cancellation/"
REQUEST: Final = re.compile(r"/admin/mcp_app/request/[0-9a-f-]{36}/change/")
PROMPT: Final = re.compile(r"<ready (?P<failed>\d*)>$")
BASH: Final = ("bash", "--norc", "--noprofile", "--noediting", "-i")
FIRST_LINES: Final = "stty -echo; trap 'failed=1' ERR; PS1='<ready ${failed-}>' PS2=\n"


class Window:
    """A shell in a terminal. Typed lines are sourced from a file, so that only one prompt follows them."""

    def __init__(self, site: Site, scratch: Path) -> None:
        environment = {**site.environment, "VIRTUAL_ENV_DISABLE_PROMPT": "1"}
        self._terminal = Terminal(BASH, environment, cwd=site.folder, columns=COLUMNS)
        self._scratch = scratch
        self._numbers = count()
        self._seen_before = 0
        self._terminal.press(FIRST_LINES)
        self._interrupted = False
        self._await_prompt()

    def type(self, text: str) -> None:
        self._await_prompt()
        typed = self._scratch / f"typed{id(self)}-{next(self._numbers)}.sh"
        typed.write_text(text)
        self._seen_before, self._interrupted = len(self._terminal.raw), False
        self._terminal.press(f"failed=; . {typed}{ENTER}")

    def sees(self, pattern: re.Pattern[str]) -> str:
        def found() -> re.Match[str] | None:
            return pattern.search(" ".join(self.said.split()))

        match = eventually(found, lambda: f"{pattern.pattern} in: {self.said}", PATIENCE)
        assert match is not None
        return match[0]

    def interrupt(self) -> None:
        self._interrupted = True
        self._terminal.press(CTRL_C)

    def done(self) -> None:
        """Wait for the end of the typed commands, which must succeed."""
        self._await_prompt()

    @property
    def said(self) -> str:
        """The visible output since the last typed lines."""
        return "\n".join(what_stays(self._terminal.raw[self._seen_before :]))

    @property
    def everything(self) -> str:
        return self._terminal.raw

    def _await_prompt(self) -> None:
        prompt = eventually(lambda: PROMPT.search(self.said), lambda: f"a prompt in: {self.said}", PATIENCE)
        assert prompt is not None
        assert self._interrupted or not prompt["failed"], self.said

    def close(self) -> None:
        """End the shell. Does nothing if it has ended."""
        if self._terminal.process.poll() is not None:
            return
        self._terminal.process.send_signal(signal.SIGKILL)
        self._terminal.process.wait(PATIENCE)
        self._terminal.hang_up()


@pytest.fixture
def window(site: Site, tmp_path: Path) -> Iterator[Callable[[], Window]]:
    opened: list[Window] = []

    def open_one() -> Window:
        opened.append(Window(site, tmp_path))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


class _Words(HTMLParser):
    """Collects the visible text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._unread = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._unread += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._unread -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.found.append(data)


class Newcomer:
    """Takes the steps of the page."""

    def __init__(self, site: Site, window: Callable[[], Window]) -> None:
        self._site = site
        self._port = free_port()
        self._other, self.sites = window(), window()
        self._password = ""

    def take(self, step: steps.Step) -> None:
        match step:
            case File():
                self._other.done()
                step.write(self._site.folder)
            case Shell():
                if step.in_site:
                    self._other.done()
                (self.sites if step.in_site else self._other).type(self._put_in(step.text))
            case Seen():
                self._look(step)

    @cached_property
    def browser(self) -> Browser:
        """A browser that is logged in. Use it once the site is served and its password is known."""
        return Browser.of(self._port, "admin", self._password)

    @property
    def shown(self) -> str:
        """The whole output of the first terminal."""
        return self._other.everything

    def end(self) -> None:
        self._other.done()
        self.sites.interrupt()
        self.sites.sees(re.compile(r"Stopped\."))
        for window in (self._other, self.sites):
            window.close()

    def _look(self, step: Seen) -> None:
        window = self.sites if step.in_site else self._other
        if step.interrupts:
            window.interrupt()
        if step.address:
            self._read(step)
            return
        seen = window.sees(re.compile(self._put_in(step.pattern.pattern)))
        if password := re.search(r"password (\S+) ", seen):
            self._password = password[1]

    def _read(self, step: Seen) -> None:
        eventually(
            lambda: step.pattern.search(words(self.browser, step.address)),
            lambda: f"{step.text} in: {words(self.browser, step.address)}",
            PATIENCE,
        )

    def _put_in(self, text: str) -> str:
        text = text.replace("mcp serve\n", f"mcp serve --port={self._port}\n")
        return text.replace(f":{steps.PORT}/", f":{self._port}/")


def words(browser: Browser, path: str) -> str:
    status, page = browser.get(path)
    assert status == 200, page
    parser = _Words()
    parser.feed(page)
    return " ".join(" ".join(parser.found).split())


def test_the_tutorial_is_followed(site: Site, installed: Path, window: Callable[[], Window]) -> None:
    (site.folder / ".venv").symlink_to(installed)
    install, *page = steps.tutorial()
    assert install == steps.adding()[0]
    newcomer = Newcomer(site, window)
    newcomer.take(Shell(". .venv/bin/activate\n"))
    for step in page:
        newcomer.take(step)

    # The number in the admin, as the page describes it.
    browser = newcomer.browser
    *_, first_stopped = REQUEST.findall(browser.get(CANCELLATIONS)[1])
    partial = re.search(r'"structuredContent": (\d+)', words(browser, first_stopped))
    counted = re.search(r"seen: (\d+)", newcomer.shown)
    assert partial is not None
    assert counted is not None
    assert 1 < int(counted[1]) == int(partial[1])
    newcomer.end()
    site.await_no_process()


def test_the_tutorial_and_the_page_for_any_site_add_the_same_lines() -> None:
    added = {step.path.partition("/")[2]: step.text for step in steps.files()}
    added["settings.py"] = added["settings.py"].replace('"mcp_app"', '"mcp_app", "greetings"')
    for step in steps.tutorial():
        if isinstance(step, File) and step.path.startswith("library/") and "AUTHENTICATOR" not in step.text:
            expected = added[step.path.partition("/")[2]].replace("mysite", "library").replace("greetings", "books")
            assert step.text == expected
