"""`mcp watch`: one query for each refresh, every change of every request, and a screen that is restored afterwards."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.management.requests import watch
from mcp_app.models import Request
from mcp_app.states import ProcessRole, Status
from tests.management.conftest import ROOT, Served, environment, eventually
from tests.management.terminals import COLUMNS, CTRL_C, terminal
from tests.support import rows


@pytest.mark.django_db(databases="__all__")
def test_a_look_is_one_query_and_finds_what_has_come_and_gone_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    long_ago, stays = rows.queued(), rows.queued()
    rows.cancel(long_ago)
    sight = watch.Sight()
    assert [row.pk for row in sight.look()] == [stays.pk]
    brief = rows.queued()
    rows.cancel(brief)
    Request.objects.filter(pk__in=[long_ago.pk, stays.pk]).update(submitted_at="2026-01-01T00:00:00Z")
    rows.cancel(stays)
    with CaptureQueriesContext(databases.connection()) as queries:
        found = {row.pk: row.status for row in sight.look()}
    assert len(queries) == 1
    assert found == {stays.pk: Status.CANCELLED, brief.pk: Status.CANCELLED}
    monkeypatch.setattr(watch, "OVERLAP", -1.0)
    assert list(sight.look()) == []


@pytest.mark.django_db(databases="__all__")
def test_a_line_is_written_for_each_change_and_for_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    row = rows.running(uuid4(), tool="dig")
    Request.objects.filter(pk=row.pk).update(progress_message="\x1b[2J")
    sight, view = watch.Sight(), watch._ChangeLines(as_json=True)

    def told() -> list[tuple[str, float | None, bool]]:
        view.show(sight.look())
        said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [(each["status"], each["progress"], each["cancel"] is not None) for each in said]

    assert told() == [("running", None, False)]
    assert told() == []
    Request.objects.filter(pk=row.pk).update(progress=1.0)
    assert told() == [("running", 1.0, False)]
    rows.cancel(row)
    assert told() == [("running", 1.0, True)]
    transitions.finish(row.pk, Status.CANCELLED)
    assert told() == [("cancelled", 1.0, True)]
    assert told() == []


@pytest.mark.django_db(databases="__all__")
def test_the_screen_tells_places_in_the_queue_and_when_workers_were_heard_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Identity(ProcessRole.WORKER)
    processes.beat(worker)
    rows.running(worker.boot_id, tool="dig")
    for tool in ("first", "second"):
        rows.queued(tool=tool, queue="mcp")
    rows.queued(tool="elsewhere", queue="other")
    monkeypatch.setattr("mcp_app.management.terminal.DEFAULT_COLUMNS", COLUMNS)
    monkeypatch.setattr(sys, "stdout", shown := io.StringIO())
    screen = watch._Screen()
    screen.show(watch.Sight().look())
    screen.close()
    lines = {line.split()[1]: line for line in shown.getvalue().splitlines()[3:] if len(line.split()) > 1}
    assert "3 queued, 1 running in flight" in shown.getvalue()
    assert "place 1 in mcp" in lines["first"]
    assert "place 2 in mcp" in lines["second"]
    assert "place 1 in other" in lines["elsewhere"]
    assert "heard of " in lines["dig"]


@pytest.mark.acceptance
def test_it_follows_a_call_at_a_terminal_and_in_a_pipe(data: Path, serve: Callable[..., Served]) -> None:
    served = serve(data)
    piped = subprocess.Popen(
        [sys.executable, "manage.py", "mcp", "watch", "--json"],
        cwd=ROOT,
        env=environment(data),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with terminal(data, "watch") as shown:
            shown.wait_shows("Nothing in flight")
            served.begin_call("countdown", seconds=600)
            shown.wait_shows(" of 600")
            shown.wait_shows("heard of")
            subprocess.run(
                [sys.executable, "manage.py", "mcp", "cancel", "--all"], cwd=ROOT, env=environment(data), check=True
            )
            shown.wait_shows("cancelled")
            shown.press(CTRL_C)
            assert shown.wait() == 0
        assert shown.raw.endswith("\x1b[?25h\x1b[?1049l")
        assert max(map(len, shown.lines)) <= COLUMNS
        assert piped.stdout is not None
        statuses = [json.loads(piped.stdout.readline())["status"]]
        while statuses[-1] != "cancelled":
            statuses.append(json.loads(piped.stdout.readline())["status"])
        assert set(statuses) <= {"queued", "running", "cancelled"}
        piped.send_signal(signal.SIGTERM)
        assert piped.wait(40) == 0
    finally:
        piped.kill()
        piped.communicate()


@pytest.mark.acceptance
def test_it_ends_when_nobody_reads_on(data: Path, serve: Callable[..., Served]) -> None:
    served = serve(data)
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "manage.py", "mcp", "watch"],
        cwd=ROOT,
        env=environment(data),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        os.close(writing)
        os.close(reading)
        served.begin_call("countdown", seconds=600)
        eventually(lambda: watching.poll() is not None)
        assert (watching.returncode, watching.communicate()[1]) == (0, "")
