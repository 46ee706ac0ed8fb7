"""`manage.py mcp audit verify` and `export`, and `mcp purge`."""

import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

from mcp_app.lifecycle.audit import export, sealing, verification
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.models import Cancellation
from mcp_app.states import Cause
from tests.management.conftest import ROOT, WAIT_SECONDS, Served, environment, eventually, manage, read, write

pytestmark = pytest.mark.django_db(databases="__all__")
FORGED = "UPDATE mcp_app_cancellation SET actor = 'nobody'"


@pytest.fixture
def audited() -> list[Cancellation]:
    """Three attempts, of which the first two are sealed."""
    for number in (1, 2, 3):
        cancellation.cancel(UUID(int=number), cause=Cause.ADMIN, actor=Actor("Ada"), reason=f"=wörds, {number}")
        if number == 2:
            sealing.seal_final_attempts()
    return list(Cancellation.objects.order_by("-pk"))


def say(*arguments: str) -> str:
    call_command("mcp", "audit", *arguments, stdout=(output := io.StringIO()))
    return output.getvalue()


def test_verify_says_that_all_is_well_and_what_to_keep(audited: list[Cancellation]) -> None:
    head = verification.head()
    assert head.endswith(f":2:{audited[1].seal}")
    verdict, keep = say("verify", "--head", head).splitlines()
    assert all(fact in verdict for fact in ("unchanged", " 2 attempts", " 1 not", " 0 days"))
    assert keep.endswith(f"--head: {head}")


def test_verify_says_a_line_for_each_finding_and_fails(audited: list[Cancellation]) -> None:
    unsealed = audited[0]
    Cancellation.objects.filter(pk=unsealed.pk)._settle({"actor": "nobody"})
    with pytest.raises(CommandError, match="findings: 1"):
        say("verify")


@pytest.mark.acceptance
def test_verify_on_the_command_line_fails_where_somebody_wrote_past_the_app(data: Path) -> None:
    assert manage(data, "mcp", "cancel", str(UUID(int=1))).returncode == 1
    done = manage(data, "mcp", "audit", "verify")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].endswith("--head: none yet")
    write(data, FORGED)
    done = manage(data, "mcp", "audit", "verify")
    assert done.returncode == 1
    [finding], [error] = done.stdout.splitlines(), done.stderr.splitlines()
    assert re.search(r"^inserted  cancellation 1\b", finding)
    assert re.search(r"^CommandError: .*findings: 1\b", error)


@pytest.mark.acceptance
def test_what_a_served_site_audits_is_sealed_within_seconds_and_kept(data: Path, serve: Callable[..., Served]) -> None:
    served = serve(data)
    served.begin_call("countdown", seconds=600)
    request_id = str(UUID(read(data, "SELECT id FROM ?request")[0][0]))
    assert manage(data, "mcp", "cancel", request_id, "--wait").returncode == 0
    assert manage(data, "mcp", "cancel", request_id).returncode == 1
    eventually(lambda: read(data, "SELECT count(*) FROM ?cancellation WHERE seal_number IS NOT NULL") == [(2,)])

    with pytest.raises(sqlite3.IntegrityError, match=r"sealed rows .*changed"):
        write(data, FORGED)
    done = manage(data, "mcp", "audit", "verify")
    assert done.returncode == 0
    assert all(fact in done.stdout.splitlines()[0] for fact in ("unchanged", " 2 attempts", " 0 not", " 0 days"))
    write(data, "DROP TRIGGER mcp_audit_update")
    write(data, f"{FORGED} WHERE seal_number = 1")
    done = manage(data, "mcp", "audit", "verify")
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["changed", "changed"]


@pytest.mark.parametrize("head", ["nonsense", "2026-13-01:1:" + "0" * 64, "2026-11-01:x:" + "0" * 64])
def test_what_is_no_head_is_refused(head: str) -> None:
    with pytest.raises(CommandError, match=f"--head: {head} "):
        say("verify", "--head", head)


def test_export_as_csv_has_every_row(audited: list[Cancellation]) -> None:
    found = list(csv.DictReader(io.StringIO(say("export").removeprefix("\ufeff"), newline="")))
    assert [row["attempt_id"] for row in found] == [str(row.attempt_id) for row in audited]
    assert [row["seal_number"] for row in found] == ["", "2", "1"]
    assert found[0]["reason"] == "'=wörds, 3"


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_export_as_json_has_every_row(
    audited: list[Cancellation], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "ROWS_AT_ONCE", at_once)
    found = json.loads(say("export", "--format", "json"))
    assert [row["reason"] for row in found] == ["=wörds, 3", "=wörds, 2", "=wörds, 1"]
    assert found[0]["request_id"] is None
    assert found[0]["requested_id"] == str(UUID(int=3))
    assert (found[0]["latency_ms"], found[0]["stage"]) == (None, "none")
    assert found[1]["seal"] == audited[1].seal


def test_export_of_nothing_is_empty() -> None:
    assert json.loads(say("export", "--format", "json")) == []
    assert say("export").count("\n") == 1


@pytest.mark.acceptance
def test_an_export_that_nobody_reads_to_its_end_ends(data: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "manage.py", "mcp", "audit", "export"],
        cwd=ROOT,
        env=environment(data),
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=WAIT_SECONDS,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.acceptance
def test_the_exported_file_is_utf8_whatever_the_terminal_is(data: Path) -> None:
    manage(data, "mcp", "cancel", "ünknown")
    done = manage(data, "mcp", "audit", "export", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert "ünknown" in done.stdout


def test_purge_says_what_it_deleted(audited: list[Cancellation]) -> None:
    call_command("mcp", "purge", stdout=(output := io.StringIO()))
    [told] = output.getvalue().splitlines()
    assert re.search(r"^0 requests\b.* 0 attempts\b.* deleted", told)
    assert Cancellation.objects.count() == len(audited)


def test_purge_is_silent_where_it_is_told_to_be(audited: list[Cancellation]) -> None:
    call_command("mcp", "purge", verbosity=0, stdout=(output := io.StringIO()))
    assert output.getvalue() == ""
