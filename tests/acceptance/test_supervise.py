"""`mcp supervise` alone ends all requests of a site whose servers and workers were killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.situations import LONG, STEP
from tests.acceptance.test_disconnect import assert_stopped
from tests.acceptance.test_tasks import create
from tests.support.site import programs
from tests.support.site.inspector import Row
from tests.support.site.layouts import apart
from tests.support.site.legacy_wire import Client
from tests.support.site.programs import Program
from tests.support.site.services import only_on_postgresql
from tests.support.site.stack import MANAGE, SETTINGS, SLOTS_OF_A_WORKER, Stack
from tests.support.waiting import eventually

SHORT = {"MCP_TEST_MAX_QUEUE_SECONDS": "20", "MCP_TEST_ABANDONED_AFTER": "1"}
ENDED_IN = 45.0


def kill_everything(site: Stack, *, spare: frozenset[int] = frozenset()) -> None:
    """Send SIGKILL to every server and worker, and wait until their children have ended too."""
    for program in (*(server.program for server in site.servers), *site.worker_programs):
        program.kill()
    site.serve_from()
    site.worker_programs.clear()
    site.await_no_process(spare=spare | {site.inspector.pid})


def row(site: Stack, request_id: str) -> Row:
    found = site.inspector.row(id=request_id)
    assert found is not None
    return found


def begin(site: Stack, tmp_path: Path) -> dict[str, str]:
    """Make running and queued requests of every kind. Return the ids of their rows by name."""
    begun: dict[str, str] = {}
    for name in ("call", "task"):
        path = tmp_path / name
        arguments = {"seconds": LONG, "path": str(path), "step": STEP}
        made = (
            create(site, "step_as_task", **arguments)[1]
            if name == "task"
            else site.row(site.call("sleep_sync", **arguments))
        )
        begun[name] = made.id
        eventually(path.exists, f"the {name} takes a step")
    assert len(begun) == SLOTS_OF_A_WORKER
    never = str(tmp_path / "never")
    begun["queued call"] = site.row(site.call("count", path=never)).id
    begun["queued task"] = create(site, "step_as_task", seconds=0.1, path=never)[1].id
    begun["queued call of a session"] = site.row(Client.opened(site).call("count", path=never)).id
    return begun


def await_every_end(site: Stack) -> None:
    eventually(
        lambda: not site.ask("open requests"), lambda: f"no open request, but {site.ask('open requests')}", ENDED_IN
    )


@pytest.mark.fault("C2", "C12")
def test_C2_supervision_alone_ends_every_request_of_a_site_that_was_killed(
    engines: dict[str, str], tmp_path: Path
) -> None:
    with apart(tmp_path, {**engines, **SHORT}) as site:
        begun = begin(site, tmp_path)
        kill_everything(site)
        assert {row(site, each).status for each in begun.values()} == {"running", "queued"}
        supervisor = site.start_supervisor()
        await_every_end(site)
        for name in ("call", "task"):
            ended = row(site, begun.pop(name))
            assert (ended.status, ended.story.count("running")) == ("lost", 1)
            assert_stopped(ended, tmp_path / name)
        ends = {name: (row(site, each).status, row(site, each).cancel_cause) for name, each in begun.items()}
        assert ends == {
            "queued call": ("cancelled", "lost_server"),
            "queued task": ("cancelled", "deadline"),
            "queued call of a session": ("cancelled", "abandoned"),
        }
        assert not (tmp_path / "never").exists()
        assert supervisor.stop() == 0
        assert "Stopped." in supervisor.output()


@pytest.mark.fault("C2")
def test_C2_one_round_ends_what_was_silent_for_long_enough_and_what_it_left(tmp_path: Path) -> None:
    with apart(tmp_path, {}) as site:
        path = tmp_path / "steps"
        request_id = site.row(site.call("spawn", seconds=LONG, path=str(path), step=STEP)).id
        eventually(path.exists, "it takes a step")
        site.worker_programs.pop().kill()
        site.servers[0].program.kill()
        site.serve_from()
        assert programs.marked(f"MCP_REQUEST={request_id}")
        # `Stack.workers` would not do, because it also checks that the process exists.
        eventually(lambda: site.ask("workers") == {}, "the worker counts as silent")
        once = site.start_supervisor("--once")
        assert once.wait() == 0, once.output()
        assert row(site, request_id).status == "lost"
        assert not programs.marked(f"MCP_REQUEST={request_id}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_supervision_ends_well_by_a_signal(migrated: Path, tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "MCPSITE_DATA": str(migrated)}
    supervisor = Program((*MANAGE, "mcp", "supervise", "--settings", SETTINGS), environment, tmp_path / "log")
    supervisor.says("Supervising")
    supervisor.signal(number)
    assert supervisor.wait() == 0
    assert supervisor.output().splitlines()[-1] == "Stopped."


@contextmanager
def away(url: str) -> Iterator[None]:
    """Forbid connections to this database, and end all existing ones."""
    only_on_postgresql()
    import psycopg

    base, _, name = url.rpartition("/")
    with psycopg.connect(f"{base}/postgres", autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false".encode())
        try:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            yield
        finally:
            admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true".encode())


@pytest.mark.fault("D2")
@pytest.mark.parametrize("engines", [pytest.param("engines", marks=pytest.mark.engines)], indirect=True)
def test_D2_supervision_outlives_a_database_that_is_away(engines: dict[str, str], tmp_path: Path) -> None:
    with apart(tmp_path, engines, workers=0) as site:
        queued = site.row(site.call("count", path=str(tmp_path / "never"))).id
        supervisor = site.start_supervisor()
        supervisor.says("Supervising")
        vars(site).pop("inspector").close()  # its connection is about to be ended
        with away(engines["MCPSITE_DATABASE"]):
            supervisor.says("supervision waits")
        supervisor.says("database is back")
        kill_everything(site, spare=frozenset({supervisor.pid}))
        await_every_end(site)
        assert (row(site, queued).status, row(site, queued).cancel_cause) == ("cancelled", "lost_server")
        assert supervisor.output().count("supervision waits") == 1
        assert supervisor.stop() == 0
