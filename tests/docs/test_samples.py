"""The pages show the real output of commands. `samples` explains how to update it."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from mcp_app.management.requests.request_ids import SHOWN
from tests.docs.pages import ROOT, Snippet, snippet
from tests.docs.samples import as_on_a_page, same
from tests.lifecycle import tampering
from tests.management.conftest import Served, environment, manage, read
from tests.management.terminals import CTRL_C, terminal
from tests.support.site import layouts
from tests.support.site.services import ServicesMissingError, missing, own_services
from tests.support.site.stack import CONCURRENCY, MANAGE
from tests.support.waiting import eventually

SITE = {"DJANGO_SETTINGS_MODULE": "tests.docs.settings", "MCPSITE_HOSTS": "example.com 127.0.0.1"}
PROMPT = "$ "
AT_MOST = 300.0
CHANGE = f"UPDATE {tampering.TABLE} SET actor = 'nobody'"
DELETE = f"DELETE FROM {tampering.TABLE}"


class Shell:
    """A user's shell at the site, which is served at `address`."""

    def __init__(self, data: Path, address: str, **changes: str) -> None:
        self.data = data
        self._address = address
        beside = Path(sys.executable).parent
        self._environment = environment(data, **SITE, PATH=f"{beside}:{os.environ['PATH']}", **changes)

    def typed(self, block: Snippet, *, about: str = "") -> str:
        """Run the commands of a block, and return each with its output below it.

        `about`: the request id that replaces the page's.
        """
        return "".join(
            f"{PROMPT}{command}\n{as_on_a_page(self.said(command), self.data)}"
            for command in (
                re.sub(r"\b(requests|cancel) [0-9a-f-]{4,}", rf"\1 {about}", line.removeprefix(PROMPT))
                for line in block.text.splitlines()
                if line.startswith(PROMPT)
            )
        )

    def said(self, command: str) -> str:
        patient = command.replace("mcp doctor", "mcp doctor --timeout 60")
        done = subprocess.run(
            ["bash", "-c", patient.replace("http://127.0.0.1:8000", self._address)],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=AT_MOST,
            check=False,
        )
        return done.stdout

    def newest(self) -> str:
        """Return the id of the newest request."""
        [[found]] = read(self.data, "SELECT id FROM ?request ORDER BY submitted_at DESC LIMIT 1")
        return f"{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:]}"


@pytest.fixture
def served(data: Path, serve: Callable[..., Served]) -> Served:
    return serve(data, **SITE)


@pytest.fixture
def shell(served: Served) -> Shell:
    return Shell(served.data, served.endpoint.removesuffix("/mcp"))


@pytest.mark.acceptance
@pytest.mark.timeout(900)
def test_at_a_site_on_its_embedded_parts(shell: Shell, served: Served) -> None:
    for block in (
        snippet("how-to/operations.md#what-is-wrong-managepy-mcp-doctor"),
        snippet("how-to/operations.md#is-it-there-probes:2"),
        snippet("reference/command-line.md#calling-a-tool:5"),
    ):
        same(block, shell.typed(block))
    call_that_completes(shell)
    assert '{"live": true}' in shell.said(healthcheck())
    countdown_that_is_watched_and_cancelled(shell)
    for block, shown in (
        (snippet("reference/command-line.md#requests"), str),
        (snippet("reference/command-line.md#requests:2"), abridged),
    ):
        same(block, shown(shell.typed(block, about=shell.newest()[:SHOWN])))
    with terminal(shell.data, "call", "countdown", "--arg", "seconds=600", **SITE) as counting:
        counting.wait_shows(" of 600")
        block = snippet("reference/command-line.md#for-scripts")
        same(block, shell.typed(block, about=shell.newest()[:SHOWN]))
        assert counting.wait() == 1
    order_that_asks(shell)
    calls_that_are_logged(shell, served)


def healthcheck() -> str:
    """Return the command of the page's `HEALTHCHECK`."""
    [_, line] = snippet("how-to/operations.md#which-name-a-probe-must-say:3").text.splitlines()
    assert line.startswith("HEALTHCHECK ")
    return line.partition(" CMD ")[2]


def call_that_completes(shell: Shell) -> None:
    """Make a call at a terminal, which does not keep the line about the time in the queue."""
    block = snippet("reference/command-line.md#calling-a-tool")
    typed = block.text.splitlines()[0]
    with terminal(shell.data, *shlex.split(typed)[4:], **SITE) as calling:
        assert calling.wait() == 0
    same(block, as_on_a_page("\n".join([typed, *calling.lines]), shell.data))


def countdown_that_is_watched_and_cancelled(shell: Shell) -> None:
    typed = snippet("reference/command-line.md#calling-a-tool:2").text.splitlines()[0]
    with terminal(shell.data, *shlex.split(typed)[4:], **SITE) as counting:
        counting.wait_shows(" of 600", times=3)
        with terminal(shell.data, "watch", columns=120, **SITE) as watching:
            watching.wait_shows("heard of", times=2)
            watching.press(CTRL_C)
            assert watching.wait() == 0
        counting.press(CTRL_C)
        assert counting.wait() == 130
    *_, pressed = re.findall(r"countdown  \[[^\r\n]*\^C", counting.raw)
    bar = pressed.removesuffix("^C")
    same(snippet("reference/command-line.md#calling-a-tool:2"), f"{typed}\n{bar}\n")
    stays = "\n".join(counting.lines)
    same(snippet("reference/command-line.md#calling-a-tool:3"), as_on_a_page(f"{pressed}\n{stays}", shell.data))
    *_, screen = re.findall(r"\x1b\[H(.*?)\x1b\[J", watching.raw.replace("\r", ""), re.DOTALL)
    same(snippet("reference/command-line.md#watching"), as_on_a_page(screen.replace("\x1b[K", ""), shell.data))


def abridged(told: str) -> str:
    """Return the text without the fields that every request has, and with only the first line of progress."""
    told = re.sub(r"(?<=\n)(  Ran .*\n)(?:  .*\n)+", r"\1  …\n", told, count=1)
    first, progress, rest = re.split(r"(?<=\n)(  .*  progress: .*\n)", told, maxsplit=1)
    # The tool may report once more between the cancellation and its end.
    return first + progress + "  …\n" + re.sub(r"  .*  progress: .*\n", "", rest)


def order_that_asks(shell: Shell) -> None:
    with terminal(shell.data, "call", "order", **SITE) as asking:
        for question, times, answer in (
            ("quantity (integer): ", 1, "12"),
            ("quantity (integer): ", 2, "3"),
            ("size (optional) [small]: ", 1, ""),
        ):
            asking.wait_shows(question, times)
            asking.press(f"{answer}\n")
        assert asking.wait() == 0
    assert "Order 17: 3." in asking.lines
    _, asked = "\n".join(asking.lines).split("How many", 1)
    question, last, _ = asked.partition("size (optional) [small]: ")
    same(snippet("reference/command-line.md#calling-a-tool:4"), as_on_a_page(f"How many{question}{last}", shell.data))


def calls_that_are_logged(shell: Shell, served: Served) -> None:
    """Make two calls of a user: one completes, and the client disconnects from the other."""
    make = "from django.contrib.auth.models import User; User.objects.create_user('ada')"
    assert manage(shell.data, "shell", "-c", make, **SITE).returncode == 0
    words = ("call", "countdown", "--user", "ada", "--arg")
    assert manage(shell.data, "mcp", *words, "seconds=3", **SITE).returncode == 0
    with terminal(shell.data, *words, "seconds=600", **SITE) as call:
        call.wait_shows(" of 600")
        call.hang_up()
        call.process.wait(AT_MOST)
    last = shell.newest()
    served.wait_said(f"request {last}")
    logged = [line for line in served.output.splitlines() if re.match(r"countdown of ada .*, request ", line)]
    short = "".join(re.sub(r"(?<=request )([0-9a-f]{8}-).*", r"\1…\n", line) for line in logged)
    same(snippet("how-to/operations.md#what-became-of-each-call-the-log"), short)


@pytest.mark.acceptance
@pytest.mark.engines
@pytest.mark.timeout(900)
def test_on_engines_with_a_worker_that_hangs_and_one_that_takes_no_tools(tmp_path: Path) -> None:
    settings = SITE["DJANGO_SETTINGS_MODULE"]
    try:
        with own_services() as engines, layouts.apart(tmp_path, engines, servers=0, settings=settings) as stack:
            shell = Shell(tmp_path, "", **engines)
            [hangs] = stack.worker_programs
            other = stack.start(*MANAGE, "mcp", "worker", "--settings", settings, "--queues", "other", CONCURRENCY)
            eventually(lambda: "takes other" in shell.said("python manage.py mcp doctor"), "it answers", AT_MOST)
            hangs.signal(signal.SIGSTOP)
            try:
                block = snippet("how-to/operations.md#what-is-wrong-managepy-mcp-doctor:2")
                same(block, shell.typed(block))
            finally:
                hangs.signal(signal.SIGCONT)
                assert other.stop() == 0
    except ServicesMissingError as error:
        missing(f"NO PostgreSQL AND Redis, a sample of docs/how-to/operations.md was not held against them: {error}")


@pytest.mark.django_db(databases="__all__")
def test_of_an_audit_that_was_tampered_with(monkeypatch: pytest.MonkeyPatch) -> None:
    block = snippet("how-to/audit.md#what-nobody-can-change-unseen")
    tampering.attempts(4)
    tampering.seal(monkeypatch, tampering.YESTERDAY)
    tampering.attempts(8)
    tampering.seal(monkeypatch, tampering.TODAY)
    tampering.attempts(1)
    with tampering.past_the_triggers():
        for change, which in (
            (CHANGE, "seal_number = 1 AND sealed_on = '2026-11-20'"),
            (DELETE, "seal_number IN (2, 3) AND sealed_on = '2026-11-20'"),
            (DELETE, "seal_number > 6 AND sealed_on = '2026-11-21'"),
            (CHANGE, "sealed_on IS NULL"),
        ):
            tampering.execute(f"{change} WHERE {which}")
        said = StringIO()
        with pytest.raises(CommandError) as failed:
            call_command("mcp", "audit", "verify", stdout=said)
    typed, *_ = block.text.splitlines()
    assert typed == "$ python manage.py mcp audit verify"
    same(block, f"{typed}\n{said.getvalue()}CommandError: {failed.value}\n")
