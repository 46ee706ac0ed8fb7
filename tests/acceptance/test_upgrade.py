"""An upgrade under load in the order of docs/how-to/upkeep.md, "A new version": every call that began is completed."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.load import Load
from tests.acceptance.situations import STEP
from tests.support.site.layouts import apart
from tests.support.site.stack import MANAGE, Server, Stack
from tests.support.site.wire import Connection, message, text
from tests.support.waiting import eventually

OLD: Final = "tests.acceptance.narrow_settings"
NEW: Final = "tests.acceptance.newer_settings"
DRAIN: Final = 60.0
HELD: Final = 4.0
"""Duration in seconds of a call during which its process receives SIGTERM."""
DRAINED: Final = 90.0

pytestmark = pytest.mark.timeout(600)


@contextmanager
def held(site: Stack, path: Path, server: Server | None = None) -> Iterator[Connection]:
    """Make a call that runs when the block begins, and assert afterwards that it is completed."""
    call = site.call("sleep_sync", server=server, seconds=HELD, path=str(path), step=STEP)
    eventually(path.exists, "it takes a step")
    yield call
    result = call.result()
    assert not result.get("isError"), text(result)


def replace_worker(site: Stack, tmp_path: Path, number: int) -> None:
    site.expected_workers += 1
    site.start_worker()
    site.restore_workers()
    with held(site, tmp_path / f"worker-{number}"):
        old = site.worker_programs.pop(0)
        old.signal(signal.SIGTERM)
    assert old.wait(DRAINED) == 0, old.output()
    site.expected_workers -= 1


def replace_server(site: Stack, tmp_path: Path, number: int) -> None:
    old = site.servers[0]
    new = site.start_embedded("--no-worker")
    with held(site, tmp_path / f"server-{number}", old):
        site.serve_from(*site.servers[1:], new)
        old.program.signal(signal.SIGTERM)
    assert old.program.wait(DRAINED) == 0, old.program.output()


def offers_the_newest(site: Stack, server: Server) -> bool:
    result = site.post(message("tools/list"), server=server).result()
    return "newest" in {tool["name"] for tool in result["tools"]}


def test_in_the_documented_order_no_call_is_stopped(engines: dict[str, str], tmp_path: Path) -> None:
    drained = engines | {"MCP_TEST_SETTINGS": json.dumps({"DRAIN_SECONDS": DRAIN})}
    with apart(tmp_path, drained, servers=2, workers=2, settings=OLD) as site:
        load = Load(site)
        with load.running():
            site.settings = NEW
            for alias in ("default",) if engines else ("default", "mcp"):
                migrated = site.start(*MANAGE, "migrate", f"--settings={NEW}", f"--database={alias}", "--verbosity=0")
                assert migrated.wait(DRAINED) == 0, migrated.output()
            for number in range(2):
                replace_worker(site, tmp_path, number)
            assert not any(offers_the_newest(site, server) for server in site.servers)
            for number in range(2):
                replace_server(site, tmp_path, number)
        for server in site.servers:
            assert offers_the_newest(site, server)
            assert text(site.call("newest", server=server).result()) == "of the new version"
        eventually(lambda: not site.ask("open requests"), lambda: f"no open request, but {site.ask('open requests')}")
        lives = site.ask("lives")
        assert {tuple(life) for life in lives.values()} == {("completed", "", 1)}, lives
        assert {each.kind for each in load.learned if each.request_id in lives} == {"completed"}, load.kinds
        assert load.kinds["completed"] > 20, load.kinds
