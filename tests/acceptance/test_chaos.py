"""A short chaos run finds no fault, embedded and on Redis. This keeps the program of `.ci/nightly` working."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.site.inspector import ROOT
from tests.support.site.services import missing

SEED: Final = 21
MINUTES: Final = 0.1
WITHIN: Final = 600.0
NO_ENGINES: Final = 2
"""The exit status of the chaos run if an engine's programs are missing."""


@pytest.mark.timeout(WITHIN)
@pytest.mark.parametrize("kind", ["embedded", pytest.param("redis", marks=pytest.mark.engines)])
def test_a_short_chaos_run_finds_nothing(kind: str, tmp_path: Path) -> None:
    command = ["--minutes", str(MINUTES), "--stack", kind, "--seed", str(SEED), "--clients", "6"]
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", *command, "--folder", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with run:
        said, _ = run.communicate()
    if run.returncode == NO_ENGINES:
        missing(f"NO chaos on {kind}: {said}")
    assert run.returncode == 0, said
    assert int(re.findall(r"calls: (\d+)", said)[0]) > 0, said
    assert re.search(r"faults: \w", said), said
