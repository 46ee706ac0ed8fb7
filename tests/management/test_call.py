"""`mcp call` as a user runs it: at a terminal, in a script, and interrupted."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from uuid import UUID

import pytest

from tests.management.conftest import ROOT, SETTINGS, Served, environment, eventually, manage, processes, read
from tests.management.terminals import CTRL_C, CTRL_D, moves, terminal

pytestmark = [pytest.mark.usefixtures("_hangs_up"), pytest.mark.acceptance]

SITE = {"DJANGO_SETTINGS_MODULE": SETTINGS}
ESCAPE = "\x1b[31m\x07\x9b"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Path]:
    """The data folder of a running site, whose worker runs the calls."""
    folder = tmp_path_factory.mktemp("site")
    data = Path(copytree(migrated, folder / "data"))
    served = Served(data, folder / "serve.log", **SITE)
    try:
        served.wait_said("READY")
        yield data
    finally:
        served.clean_up()


@pytest.fixture
def _hangs_up() -> Iterator[None]:
    """Restore the signal handlers. Under nohup, the commands would ignore the signals that these tests send."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    return tmp_path / "steps"


def stepping(tool: str, steps: Path, seconds: int = 300) -> list[str]:
    return ["call", tool, "--arg", f"seconds={seconds}", "--arg", f"path={steps}"]


def newest(data: Path, columns: str) -> tuple[object, ...]:
    return read(data, f"SELECT {columns} FROM ?request ORDER BY submitted_at DESC LIMIT 1")[0]


@pytest.mark.parametrize(
    ("words", "status", "out", "aside"),
    [
        (["roman", "--arg", "number=1994"], 0, "MCMXCIV\n", ("completed, ",)),
        (["roman", "--args", '{"number": 4}', "-v", "0"], 0, "IV\n", None),
        (["romn", "--arg", "number=4"], 2, "", ("'romn'", "mean roman?")),
        (["roman", "--arg", "number=x"], 2, "", ("--arg number:", "'x'", "JSON (integer)")),
        (["roman", "--arg", "number=4000"], 2, "", ("number:", "less than or equal to 3999")),
        (["roman", "--user", "nobody"], 1, "", ("no active user", "'nobody'")),
        (["roman", "--endpoint", "nowhere"], 1, "", ("no endpoint", "'nowhere'")),
        (["roman", "--timeout", "0"], 2, "", ("--timeout: 0 ", "seconds above 0")),
        (["test_error_handling"], 1, "", ("This tool intentionally returns an error for testing",)),
        (["test_missing_capability"], 1, "", ("declare", '{"sampling": {}}')),
        (["test_image_content"], 0, "[image image/png, about ", ("completed",)),
        (["blocked", "--arg", "seconds=60", "--timeout", "1"], 1, "", ("time limit",)),
        (["visit"], 0, "decline\n", ("“Please sign there.”", "declined", "no terminal")),
        (["test_tool_with_logging"], 0, "Three log", ("info: test_tool_with_logging: Tool execution started",)),
        (["test_tool_with_progress"], 0, "Progress was", ("100 of 100  Completed step 100 of 100",)),
        (["step_as_task", "--arg", "seconds=0.1", "--arg", "path=/dev/null"], 0, "1 steps\n", ("completed",)),
    ],
    ids=lambda value: "-".join(value[:3]) if isinstance(value, list) else None,
)
def test_the_result_is_on_standard_output_and_everything_else_beside_it(
    site: Path, words: list[str], status: int, out: str, aside: tuple[str, ...] | None
) -> None:
    done = manage(site, "mcp", "call", *words, **SITE)
    assert (done.returncode, done.stdout[: len(out) or None]) == (status, out), done.stderr
    if aside is None:
        assert done.stderr == ""
    else:
        assert all(fact in done.stderr for fact in aside), done.stderr


def test_json_is_the_whole_result_and_an_argument_may_come_from_standard_input(site: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "mcp", "call", "echo", "--arg", "text=-", "--json", "-v0"],
        cwd=ROOT,
        env=environment(site, **SITE),
        input=f"{ESCAPE}é",
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert "\x1b" not in done.stdout
    [block] = json.loads(done.stdout)["content"]
    assert block["text"] == f"{ESCAPE}é"


USERS = """
from django.contrib.auth.models import Permission, User
User.objects.create_user("clerk").user_permissions.set(Permission.objects.filter(codename="view_user"))
User.objects.create_user("visitor")
"""


def test_a_user_calls_what_the_site_grants_them_and_finds_nothing_else(site: Path) -> None:
    assert manage(site, "shell", "-c", USERS, **SITE).returncode == 0
    called = manage(site, "mcp", "call", "whoami", "--user", "clerk", **SITE)
    assert (called.returncode, called.stdout) == (0, "clerk\n"), called.stderr
    for user in (["--user", "visitor"], []):
        refused = manage(site, "mcp", "call", "whoami", *user, **SITE)
        unknown = manage(site, "mcp", "call", "whoareyou", *user, **SITE)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr == unknown.stderr.replace("whoareyou", "whoami")


def test_without_a_user_the_row_names_who_runs_the_command(site: Path) -> None:
    done = manage(site, "mcp", "call", "add", "--arg", "a=1", "--arg", "b=2", **SITE)
    assert done.stdout == "3\n"
    issuer, subject, status = newest(site, "issuer, subject, status")
    assert (issuer, str(subject).split("@")[0], status) == ("local", str(os.getuid()), "completed")


def test_no_escape_sequence_reaches_the_terminal(site: Path, tmp_path: Path) -> None:
    words = ("call", "echo", "--arg", f"text={ESCAPE}")
    with terminal(site, *words, "-v0", **SITE) as shown:
        assert shown.wait() == 0
    assert shown.raw == "\\u001b[31m\\u0007\\u009b\r\n"
    with terminal(site, *words, "-v0", out=(out := tmp_path / "out"), **SITE) as shown:
        assert shown.wait() == 0
    assert out.read_text() == f"{ESCAPE}\n"  # escape sequences have no effect in a file


def test_a_bar_shows_how_far_it_is_and_is_gone_in_the_end(site: Path, tmp_path: Path) -> None:
    words = ("call", "progress", "--arg", "steps=20", "--arg", "delay=0.1")
    with terminal(site, *words, out=(out := tmp_path / "out"), **SITE) as shown:
        assert shown.wait() == 0
    assert "progress  [##########----------]  0:0" in shown.raw
    assert "  10 of 20  " in shown.raw
    assert [line.split(",")[0] for line in shown.lines if line] == ["completed"]
    assert out.read_text() == "20 steps\n"


@pytest.mark.parametrize(
    ("tool", "stage"), [("sleep", "cooperative"), ("sleep_sync", "interrupt"), ("stubborn", "kill"), ("spawn", "kill")]
)
def test_ctrl_c_returns_when_the_work_has_stopped(site: Path, steps: Path, tool: str, stage: str) -> None:
    with terminal(site, *stepping(tool, steps), **SITE) as shown:
        eventually(steps.exists)
        assert moves(steps)
        shown.press(CTRL_C)
        assert shown.wait() == 130
    assert not moves(steps)
    assert f"cancelled, stage {stage}, " in shown.lines[-2]
    assert newest(site, "status, cancel_cause, cancel_reason") == ("cancelled", "client", "Ctrl-C")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["term", "hup"])
def test_other_signals_that_end_a_process_stop_the_work_as_well(site: Path, steps: Path, number: int) -> None:
    with terminal(site, *stepping("sleep_sync", steps), **SITE) as shown:
        eventually(steps.exists)
        shown.process.send_signal(number)
        assert shown.wait() == 130
    assert not moves(steps)


def test_a_window_that_is_closed_stops_the_work(site: Path, steps: Path) -> None:
    with terminal(site, *stepping("sleep_sync", steps), **SITE) as shown:
        eventually(steps.exists)
        shown.hang_up()
        assert shown.process.wait(40) == 130
    assert not moves(steps)


def test_a_second_ctrl_c_leaves_while_the_work_is_being_stopped(site: Path, steps: Path) -> None:
    with terminal(site, *stepping("stubborn", steps), **SITE) as shown:
        eventually(steps.exists)
        shown.wait_shows("running")
        shown.press(CTRL_C)
        shown.wait_shows("Cancelling")
        shown.press(CTRL_C)
        assert shown.wait() == 130
    [request_id] = newest(site, "id")
    assert f"`python manage.py mcp requests {UUID(str(request_id))}`" in shown.raw
    eventually(lambda: newest(site, "status") == ("cancelled",))
    assert not moves(steps)


def test_a_command_that_is_killed_is_a_client_that_is_lost(site: Path, steps: Path) -> None:
    with terminal(site, *stepping("sleep_sync", steps), **SITE) as shown:
        eventually(steps.exists)
        shown.process.kill()
        shown.wait()
        eventually(lambda: newest(site, "status, cancel_cause") == ("cancelled", "lost_server"))
    assert not moves(steps)


def test_what_a_tool_asks_is_asked_at_the_terminal(site: Path, tmp_path: Path) -> None:
    with terminal(site, "call", "order", "--arg", f"path={tmp_path / 'runs'}", **SITE) as shown:
        shown.wait_shows("quantity (integer): ")
        shown.press("12\n")
        shown.wait_shows("at most 9")
        assert re.search("quantity: .*at most 9", shown.raw)
        shown.press("3\n")
        shown.wait_shows("size (optional) [small]: ")
        shown.press("\n")
        shown.wait_shows("3, really?")
        shown.wait_shows("yes (y/n, optional): ")
        shown.press("/decline\n")
        assert shown.wait() == 0
    assert "17: 3 small, decline" in shown.lines
    with terminal(site, "call", "visit", **SITE) as shown:
        shown.wait_shows("https://example.com/sign")
        shown.press(CTRL_D)
        assert shown.wait() == 0
    assert "cancel" in shown.lines


def test_ctrl_c_at_a_question_cancels_the_call(site: Path, tmp_path: Path) -> None:
    with terminal(site, "call", "order", "--arg", f"path={tmp_path / 'runs'}", **SITE) as shown:
        shown.wait_shows("quantity (integer): ")
        shown.press(CTRL_C)
        assert shown.wait() == 130
    assert newest(site, "status, cancel_cause") == ("cancelled", "client")


def test_where_no_worker_is_alive_one_is_started_and_none_is_left(data: Path, steps: Path) -> None:
    with terminal(data, *stepping("spawn", steps), **SITE) as shown:
        shown.wait_shows("starting one")
        eventually(steps.exists)
        shown.press(CTRL_C)
        assert shown.wait() == 130
    assert not moves(steps)
    eventually(lambda: not processes(data))
    with terminal(data, *stepping("spawn", steps), **SITE) as shown:
        eventually(lambda: moves(steps))
        shown.process.kill()
        shown.wait()
    eventually(lambda: not processes(data))
    assert not moves(steps)


def test_without_a_worker_it_says_what_to_start_and_waits(data: Path) -> None:
    with terminal(data, "call", "roman", "--arg", "number=4", "--no-worker", **SITE) as shown:
        shown.wait_shows("`python manage.py mcp worker`")
        shown.wait_shows("waiting for a worker")
        shown.press(CTRL_C)
        assert shown.wait() == 130
    assert newest(data, "status, stage") == ("cancelled", 0)


def test_a_call_whose_worker_cannot_be_started_is_cancelled_and_fails(data: Path) -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "tests.management.unstartable_settings", "NO_WORKER_WHILE": str(data)}
    done = manage(data, "mcp", "call", "roman", "--arg", "number=4", **settings)
    assert done.returncode == 1
    assert "worker: this worker's package is broken" in done.stderr
    assert "cannot be started" in done.stderr
    status, reason = newest(data, "status, cancel_reason")
    assert status == "cancelled"
    assert "cannot be started" in str(reason)
    assert processes(data) == []
