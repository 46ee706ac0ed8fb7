"""The comparison of two sites: by their query plans, and by rounds whose values overlap. Nothing here is timed."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.machine import ROOT
from bench.million import plans
from bench.million.__main__ import overlap

RUN_SECONDS = 900
SELECT = 'SELECT "id" FROM "mcp_app_request" WHERE "status" IN '
RECORDED = """
import sys
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
from bench.peers.site import plans
plans.record(sys.argv[1])
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE call (id integer PRIMARY KEY, tool text)")
    cursor.execute("CREATE INDEX by_tool ON call (tool)")
    for tool in ("echo", "search"):
        cursor.execute("SELECT id FROM call WHERE tool = %s", [tool])
    cursor.executemany("INSERT INTO call (tool) VALUES (%s)", [["echo"], ["search"]])
    cursor.execute("SELECT tool FROM call WHERE tool LIKE %s", ["%o"])
"""
"""Runs in a process of its own, because recording lasts until the process ends."""


def test_each_statement_is_explained_once_and_carried_out_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "plans"
    subprocess.run([sys.executable, "-c", RECORDED, str(path)], cwd=ROOT, check=True, timeout=60)

    assert len(path.read_text().splitlines()) == 3
    assert plans.read(path) == {
        "SELECT id FROM call WHERE tool = %s": {("SEARCH call USING COVERING INDEX by_tool (tool=?)",)},
        "INSERT INTO call (tool) VALUES (…)": {()},
        "SELECT tool FROM call WHERE tool LIKE %s": {("SCAN call",)},
    }


@pytest.mark.parametrize(
    ("lines", "used"),
    [
        (["Index Scan using by_status on mcp_app_request u0"], "index by_status"),
        (["Index Only Scan Backward using by_status on mcp_app_request"], "index by_status"),
        (["Bitmap Heap Scan on mcp_app_request", "->  Bitmap Index Scan on by_status"], "index by_status"),
        (["->  Seq Scan on mcp_app_request"], "Seq Scan on mcp_app_request"),
        (["SEARCH call USING INDEX by_tool (tool=?)"], "SEARCH call USING INDEX by_tool (tool=?)"),
    ],
)
def test_of_a_plan_only_what_is_looked_into_counts_and_by_which_index(lines: list[str], used: str) -> None:
    told = [(f"{SELECT}(%s)", ["Limit", *lines, "        Filter: (tool IS NULL)"])]
    assert plans.gathered(told) == {f"{SELECT}(…)": {(used,)}}


def test_statements_that_differ_in_the_number_of_their_values_are_one() -> None:
    told = [(f"{SELECT}({values})", ["SEARCH mcp_app_request"]) for values in ("%s", "%s, %s", "%s, %s, %s")]
    assert list(plans.gathered(told)) == [f"{SELECT}(…)"]


def test_a_statement_that_is_carried_out_otherwise_is_told_with_both_ways() -> None:
    few, many = (
        plans.gathered([(SELECT, [way]), ("WITH", ["SCAN tally"])]) for way in ("SCAN request", "SEARCH request")
    )
    assert [str(change) for change in plans.changes(few, many)] == [
        f"{SELECT}\n    few   SCAN request\n    many  SEARCH request"
    ]


def test_a_statement_of_one_site_alone_is_no_change() -> None:
    few, many = plans.gathered([(SELECT, ["SCAN request"])]), plans.gathered([("WITH", ["SCAN tally"])])
    assert list(plans.changes(few, many)) == []


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [([1, 2, 3], [3, 4], True), ([3, 4], [1, 2, 3], True), ([1, 9], [4], True), ([1, 2], [3, 4], False)],
    ids=["above", "below", "within", "apart"],
)
def test_rounds_that_meet_are_within_the_noise(one: Sequence[float], other: Sequence[float], meet: bool) -> None:
    assert overlap(one, other) is meet


@pytest.mark.acceptance
@pytest.mark.nightly
@pytest.mark.timeout(RUN_SECONDS + 30)
def test_two_small_sites_are_filled_called_and_compared(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    command = ["-m", "bench.million", "--requests", "2000", "--few", "1000", "--rounds", "1", "--json", str(told)]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )

    assert done.returncode in (0, 1), done.stderr  # 1 if plans differ, as they may with so few rows
    rounds = json.loads(told.read_text())["rounds"]
    assert {len(values) for site in rounds.values() for values in site.values()} == {1}
    assert "statements of both" in done.stdout
