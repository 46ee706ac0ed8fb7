"""`manage.py mcp doctor` on a site that is stopped, broken in one place, or healthy."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mcp_app.diagnosis import workers
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.management import doctor
from mcp_app.models import Process
from mcp_app.states import ProcessRole
from tests.management.conftest import ROOT, WAIT_SECONDS, Served, environment, manage

NAMES = [
    *("settings", "database", "migrations", "broker", "workers", "queues", "supervision", "clocks", "channel layer"),
    *("results", "audit"),
]


def told(*options: str) -> tuple[str, bool]:
    """Run the command in this process. Return its output and whether a check failed."""
    output = StringIO()
    try:
        call_command("mcp", "doctor", *options, stdout=output)
    except CommandError:
        return output.getvalue(), True
    return output.getvalue(), False


def marks(output: str) -> dict[str, str]:
    """Return the worst mark of each name."""
    found: dict[str, str] = {}
    for line in output.splitlines():
        mark, name = line[:2], line[4:17].strip()
        if mark in ("ok", "! ", "x ") and name in NAMES and found.get(name) != "x ":
            found[name] = mark
    return found


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_site_without_a_worker_is_told_what_to_start_and_the_status_is_one() -> None:
    output, failed = told("--timeout", "30")
    assert failed
    assert list(marks(output)) == NAMES
    assert marks(output)["workers"] == "x "
    assert f"      {workers.START}\n" in output
    assert output.splitlines()[-1].startswith("2 failed, ")
    assert "\x1b" not in output


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_for_machines_it_is_one_json_object() -> None:
    processes.beat(Identity(ProcessRole.WORKER))
    output, failed = told("--json", "--timeout", "30")
    said = json.loads(output)
    assert failed == (said["state"] == "failed") is True
    assert list(dict.fromkeys(finding["name"] for finding in said["findings"])) == NAMES
    [worker] = [finding for finding in said["findings"] if finding["name"] == "workers"]
    assert worker["state"] == "warning"
    assert set(worker) == {"name", "state", "found", "remedy"}
    assert Process.objects.count() == 1


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_what_the_system_checks_find_is_told_with_their_lines_and_does_not_keep_the_rest_from_being_told(
    settings: Any,
) -> None:
    settings.DATABASE_ROUTERS = []
    settings.CELERY_RESULT_BACKEND = "django-db"
    output, failed = told("--timeout", "30")
    assert failed
    assert re.search(r"^x   settings +mcp_app\.E003: .*'mcp'", output, re.MULTILINE)
    assert 'DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"]' in output
    assert marks(output)["database"] == "ok"


def test_where_the_settings_cannot_be_read_that_is_all_that_is_told(settings: Any) -> None:
    settings.MCP = {"DATABSE": "mcp"}
    output, failed = told()
    assert failed
    assert list(marks(output)) == ["settings"]
    assert "DATABSE" in output


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_where_a_check_of_the_sites_fails_everything_else_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: Any) -> None:
        raise RuntimeError("a check of the site's")

    monkeypatch.setattr(doctor, "run_checks", fail)
    output, failed = told("--timeout", "30")
    assert failed
    assert "a check of the site's" in output
    assert list(marks(output)) == NAMES


@pytest.mark.parametrize("seconds", ["0", "1", "-1", "inf", "soon"])
def test_a_time_that_makes_no_sense_is_refused(seconds: str) -> None:
    with pytest.raises(CommandError, match=r"--timeout"):
        call_command("mcp", "doctor", f"--timeout={seconds}")


@pytest.mark.acceptance
def test_before_the_first_start_it_says_what_to_run_and_makes_no_database(tmp_path: Path) -> None:
    done = manage(tmp_path / "data", "mcp", "doctor")
    [error] = done.stderr.splitlines()
    assert done.returncode == 1
    assert error.startswith("CommandError: 2 failed")
    assert {marks(done.stdout)[name] for name in ("database", "workers")} == {"x ", "! "}
    assert "python manage.py migrate --database mcp" in done.stdout
    assert not list((tmp_path / "data").glob("*.sqlite3"))


@pytest.mark.acceptance
def test_a_site_that_serves_is_well_and_its_worker_told_with_its_queue(
    data: Path, serve: Callable[..., Served]
) -> None:
    serve(data)
    done = manage(data, "mcp", "doctor")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert set(marks(done.stdout).values()) == {"ok"}
    assert ": prefork, 2 slots, heartbeat " in done.stdout
    assert "takes mcp." in done.stdout
    assert done.stdout.endswith(" ok.\n")


@pytest.mark.acceptance
def test_in_a_terminal_the_marks_have_colours(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "manage.py", "mcp", "doctor"]
        shown = environment(tmp_path / "data", TERM="xterm-256color")
        with subprocess.Popen(command, cwd=ROOT, env=shown, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            said = b""
            while b"CommandError" not in said:
                said += os.read(ours, 65536)
            assert process.wait(WAIT_SECONDS) == 1
    finally:
        os.close(ours)
    assert b"\x1b[31;1mx \x1b[0m  database" in said
