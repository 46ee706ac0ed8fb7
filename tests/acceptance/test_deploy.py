"""A deploy under load: each server and worker is replaced by a new one that was started first.

Afterwards the outcome of every request is known, and agrees with its client's.
"""

import signal
from pathlib import Path
from uuid import uuid4

import pytest

from tests.acceptance.load import Load
from tests.acceptance.situations import LONG, STEP
from tests.acceptance.test_disconnect import assert_stopped
from tests.acceptance.test_endings import commence, error_text
from tests.support.site.layouts import apart
from tests.support.site.legacy_wire import Client
from tests.support.site.stack import Stack
from tests.support.waiting import eventually

SHUTTING_DOWN = ("stopped", "shutting down", "call again")
"""Words in the result of a call that was stopped."""
ENDED_WITHOUT_WORD = {("cancelled", "disconnect"), ("cancelled", "shutdown"), ("cancelled", "lost_server")}


def replace_servers(site: Stack, tmp_path: Path) -> None:
    for old in list(site.servers):
        path = tmp_path / f"server-{uuid4()}"
        held = site.call("sleep_sync", server=old, seconds=LONG, path=str(path), step=STEP)
        eventually(path.exists, "it takes a step")
        site.serve_from(*(server for server in site.servers if server is not old), site.start_embedded("--no-worker"))
        old.program.signal(signal.SIGTERM)
        told = error_text(held)
        assert all(fact in told for fact in SHUTTING_DOWN)
        assert old.program.wait() == 0, old.program.output()
        assert_stopped(site.ended(held), path)


def replace_workers(site: Stack, tmp_path: Path) -> None:
    for _ in list(site.worker_programs):
        path = tmp_path / f"worker-{uuid4()}"
        site.expected_workers += 1
        site.start_worker()
        site.restore_workers()
        held = commence(site, path)
        workers = site.workers()
        old = next(program for program in site.worker_programs if program.pid == workers[str(site.row(held).worker)])
        old.signal(signal.SIGTERM)
        told = error_text(held)
        assert all(fact in told for fact in SHUTTING_DOWN)
        assert old.wait() == 0, old.output()
        site.worker_programs.remove(old)
        site.expected_workers -= 1
        assert_stopped(site.ended(held), path)


def deploy(site: Stack, tmp_path: Path, rounds: int) -> Load:
    session = Client.opened(site)
    load = Load(site)
    with load.running():
        for _ in range(rounds):
            replace_workers(site, tmp_path)
            replace_servers(site, tmp_path)
    for server in site.servers:
        assert session.request("ping", server).result() == {}
    return load


def assert_nothing_in_doubt(site: Stack, load: Load) -> None:
    eventually(lambda: not site.ask("open requests"), lambda: f"no open request, but {site.ask('open requests')}", 20.0)
    lives = site.ask("lives")
    for learned in load.learned:
        life = lives.get(learned.request_id)
        status, cause, claims = life or ("", "", 0)
        match learned.kind:
            case "completed":
                assert (status, claims) == ("completed", 1), (learned, life)
            case "told":
                assert (status, cause) == ("cancelled", "shutdown"), (learned, life)
                assert "shut" in learned.words
            case "refused":
                assert life is None, (learned, life)
            case "cut":
                assert life is None or status == "completed" or (status, cause) in ENDED_WITHOUT_WORD, (learned, life)
    assert "lost" not in {status for status, _, _ in lives.values()}
    assert max(claims for _, _, claims in lives.values()) == 1


@pytest.mark.fault("H3", "C5", "C13")
def test_H3_a_deploy_under_load_leaves_no_request_without_an_outcome(engines: dict[str, str], tmp_path: Path) -> None:
    with apart(tmp_path, engines, servers=2, workers=2) as site:
        load = deploy(site, tmp_path, rounds=1)
        assert_nothing_in_doubt(site, load)
        assert load.kinds["completed"] > 20, load.kinds


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.fault("H3", "C5", "C13")
def test_H3_ten_deploys_under_load_leave_no_request_without_an_outcome(engines: dict[str, str], tmp_path: Path) -> None:
    with apart(tmp_path, engines, servers=2, workers=2) as site:
        load = deploy(site, tmp_path, rounds=10)
        assert_nothing_in_doubt(site, load)
        assert load.resumed, "no stream of the session was cut and resumed"
