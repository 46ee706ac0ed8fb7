"""After a server process was killed, the queued calls of its clients do not run, even before it counts as lost.

The client of a task or a session may reconnect, so those requests run.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.test_tasks import create
from tests.support.site import layouts, programs
from tests.support.site.inspector import Row
from tests.support.site.legacy_wire import Client
from tests.support.site.stack import Stack
from tests.support.site.wire import text
from tests.support.waiting import eventually

LOST_AFTER = {"MCP_TEST_LOST_AFTER": "60"}
"""A time in seconds that no test waits for."""
CALLS = 15


def queue_calls(site: Stack, tmp_path: Path, seconds: float) -> tuple[list[str], list[str]]:
    """Occupy every slot, and queue more calls. Return the ids of the calls that must not run, and of the others."""
    busy = [site.call("sleep_sync", seconds=seconds, path="/dev/null", step=0.05) for _ in range(site.slots)]
    for call in busy:
        site.running(call)
    waiting = [site.call("count", path=str(tmp_path / "waiting")) for _ in range(CALLS)]
    orphans = [site.row(call).id for call in waiting]
    session = Client.opened(site)
    in_session = site.row(session.call("count", path=str(tmp_path / "session"))).id
    task = create(site, "step_as_task", seconds=0.1, path=str(tmp_path / "task"), step=0.05)[1].id
    return orphans, [in_session, task]


def assert_only_those_run_whose_client_may_come_back(
    site: Stack, tmp_path: Path, orphans: list[str], others: list[str]
) -> None:
    def row(request_id: str) -> Row:
        found = site.inspector.row(id=request_id)
        assert found is not None
        return found

    is_ended: Callable[[], bool] = lambda: all(row(each).ended for each in (*orphans, *others))  # noqa: E731
    eventually(is_ended, "all have ended", 30.0)
    for request_id in orphans:
        orphan = row(request_id)
        assert (orphan.status, orphan.cancel_cause) == ("cancelled", "lost_server")
        assert "running" not in orphan.story
        assert len(orphan.attempts) == 1
    assert not (tmp_path / "waiting").exists()
    assert [row(each).status for each in others] == ["completed"] * 2
    assert (tmp_path / "session").exists()
    assert (tmp_path / "task").exists()


@pytest.mark.fault("I5")
def test_I5_a_successor_runs_no_queued_call_of_a_killed_server(tmp_path: Path) -> None:
    with layouts.closing(Stack(tmp_path, LOST_AFTER, workers=1)) as site:
        site.serve_from(site.start_embedded(*site.worker_options))
        orphans, others = queue_calls(site, tmp_path, 60.0)
        [server] = site.servers
        server.program.kill()
        eventually(lambda: programs.processes_of(tmp_path) == {site.inspector.pid}, "no process is left", 10.0)
        site.serve_from(site.start_embedded(*site.worker_options))
        assert_only_those_run_whose_client_may_come_back(site, tmp_path, orphans, others)
        assert text(site.call("echo", text="again").result()) == "again"


@pytest.mark.fault("I5")
def test_I5_a_worker_that_lives_on_runs_no_queued_call_of_a_killed_server(
    engines: dict[str, str], tmp_path: Path
) -> None:
    with layouts.apart(tmp_path, {**engines, **LOST_AFTER}) as site:
        orphans, others = queue_calls(site, tmp_path, 2.0)
        [server] = site.servers
        server.program.kill()
        site.serve_from()
        assert_only_those_run_whose_client_may_come_back(site, tmp_path, orphans, others)
