"""`mcp doctor` on PostgreSQL and Redis: an unreachable broker, and a worker that consumes no tool's queue."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import refusing_port
from tests.support.site import layouts
from tests.support.site.inspector import ROOT
from tests.support.site.stack import MANAGE, Stack
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(400)

DOCTOR_SECONDS = 120.0
AT_MOST = "30"
"""Seconds for each check. All are slow on a busy machine."""


def examined(stack: Stack, **environment: str) -> dict[str, list[tuple[str, str]]]:
    """Run the command with `--json`, and return the state and the text of each finding by the finding's name."""
    done = subprocess.run(
        [*MANAGE, "mcp", "doctor", "--json", "--timeout", AT_MOST],
        cwd=ROOT,
        env={**stack.environment, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DOCTOR_SECONDS,
        check=False,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (said["state"] == "failed"), done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, list[tuple[str, str]]] = {}
    for finding in said["findings"]:
        found.setdefault(finding["name"], []).append((finding["state"], finding["found"]))
    return found


@contextmanager
def deaf_worker(stack: Stack) -> Iterator[None]:
    """Run a worker of the site that consumes a queue without tools."""
    program = stack.start(sys.executable, "-m", "celery", "-A", "mcpsite", "worker", "-Q", "mail", "--pool=solo")
    try:
        eventually(lambda: "mail" in str(examined(stack)["workers"]), "the other worker answers", DOCTOR_SECONDS)
        yield
    finally:
        program.stop()


@pytest.mark.engines
@pytest.mark.parametrize("engines", ["engines"], indirect=True)
def test_on_real_engines_it_tells_who_takes_which_queue_and_what_is_gone(
    engines: dict[str, str], tmp_path: Path
) -> None:
    with layouts.apart(tmp_path, engines, servers=0) as stack:
        well = examined(stack)
        assert {state for told in well.values() for state, _ in told} == {"ok"}, well
        assert re.search(r"RedisChannelLayer\b.* \d+\.\d ms", well["channel layer"][0][1])
        assert well["database"][0][1].startswith("default: PostgreSQL ")
        assert "prefork, 2 slots" in well["workers"][0][1]

        with refusing_port() as port:
            gone = examined(stack, MCPSITE_BROKER=f"redis://:geheim@127.0.0.1:{port}/0")
        [(state, sentence)] = gone["broker"]
        assert (state, sentence.split(": ")[0]) == ("failed", f"redis://127.0.0.1:{port}/0")
        assert "geheim" not in str(gone)
        assert "not be asked" in gone["workers"][0][1]
        assert gone["database"][0][0] == "ok"
        assert gone["channel layer"][0][0] == "ok"

        with deaf_worker(stack):
            [worker] = stack.worker_programs
            assert worker.stop() == 0
            deaf = examined(stack)
            stack.restore_workers()
        assert [state for state, _ in deaf["workers"]] == ["failed", "ok"]
        assert "takes mail, and none of the tools' queues" in deaf["workers"][1][1]
        assert all(state == "failed" and "no worker" in told for state, told in deaf["queues"])
        assert deaf["supervision"][0][0] == "warning"
