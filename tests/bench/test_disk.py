"""The report of the bytes that calls leave, by kind and place, and of the rows that a purge deletes in a second.

No test here asserts a time.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.disk.__main__ import deleted, leaves
from bench.machine import ROOT

RUN_SECONDS = 600


def test_what_a_call_leaves_is_told_by_kind_and_by_where_it_is() -> None:
    request, audit = {"rows": 614.4, "indexes": 1_082}, {"rows": 0.0, "indexes": 0.0}
    told = leaves({"echo": {"request": request, "audit": audit}}, packed=0.931)
    assert told.splitlines()[0].split() == ["bytes", "a", "call", "leaves", "request", "audit", "all"]
    assert told.splitlines()[2].split() == ["echo", "614", "+", "1,082", "0", "+", "0", "1,696"]
    assert told.endswith("would take 93% of that.")


def test_what_was_purged_is_told_by_the_second() -> None:
    told = deleted({what: {"deleted": 5_000, "seconds": 2.0, "cpu_seconds": 1.5} for what in ("requests", "attempts")})
    assert [line.split() for line in told.splitlines()[2:]] == [
        ["requests", "5,000", "2.0", "2,500", "0.30"],
        ["attempts", "5,000", "2.0", "2,500", "0.30"],
    ]


@pytest.mark.acceptance
@pytest.mark.nightly
@pytest.mark.timeout(RUN_SECONDS + 30)
def test_a_few_calls_of_each_kind_are_stored_and_all_that_ended_are_purged(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    command = ["-m", "bench.disk", "--calls", "20", "--ended", "1000", "--json", str(told)]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(told.read_text())
    assert found["purged"]["requests"]["deleted"] == 1_000
    kinds = found["stored"]["kinds"]
    assert [kind for kind, sizes in kinds.items() if sizes["audit"]["rows"]] == ["cancelled"]
