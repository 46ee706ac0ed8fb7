"""Who is at work, and what is left undone: workers, queues, supervision, results, the audit."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db.models import F
from django_celery_results.models import TaskResult

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.diagnosis import results, rounds, sealing, tool_queues, workers
from mcp_app.diagnosis.findings import State
from mcp_app.lifecycle import processes
from mcp_app.lifecycle.processes import Identity
from mcp_app.models import Cancellation, Process, Request, Tool
from mcp_app.states import ProcessRole
from tests.diagnosis.conftest import only, presence, seen
from tests.lifecycle import ageing, rows
from tests.lifecycle.tampering import past_the_triggers


@pytest.fixture
def worker() -> UUID:
    """The boot id of a worker whose heart has just beaten: this process."""
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    return identity.boot_id


@pytest.fixture
def _digging() -> Iterator[None]:
    """Two tools, each of a queue of its own."""
    with isolated_registries():

        @tool(queue="deep")
        def dig() -> str:
            """Dig."""
            return ""

        @tool
        def delve() -> str:
            """Delve."""
            return ""

        yield


def test_a_worker_that_is_heard_both_ways_is_told_with_what_it_takes(worker: UUID) -> None:
    found = only(workers.look(seen(presence(worker, "mcp", "deep"))), State.OK).found
    assert found.startswith(f"{socket.gethostname()}:")
    assert worker.hex[:8] in found
    assert found.endswith("s ago, takes mcp, deep.")


def test_no_worker_at_all_has_failed() -> None:
    finding = only(workers.look(seen()), State.FAILED)
    assert finding.found == "None is alive: calls wait, and are given up in the end."
    assert "python manage.py mcp worker" in finding.remedy


def test_a_worker_that_went_silent_is_none_and_told_as_the_last(worker: UUID) -> None:
    ageing.pass_time(300)
    assert "was last heard of 300 s ago" in only(workers.look(seen()), State.FAILED).found


def test_a_worker_whose_process_is_gone_is_none_however_fresh_its_word(worker: UUID) -> None:
    Process.objects.update(pid=4_000_000)
    only(workers.look(seen()), State.FAILED)


def test_a_worker_that_has_stopped_is_not_told_of() -> None:
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    processes.stop(identity)
    assert only(workers.look(seen()), State.FAILED).found.startswith("None is alive:")


def test_a_heartbeat_without_an_answer_over_the_broker_is_told(worker: UUID) -> None:
    finding = only(workers.look(seen()), State.WARNING)
    assert "and no answer over the broker within" in finding.found


def test_where_the_broker_took_no_question_nothing_is_held_against_workers(worker: UUID) -> None:
    assert "could not be asked" in only(workers.look(seen(silent=True)), State.OK).found


def test_an_answer_without_a_heartbeat_is_told(worker: UUID) -> None:
    ageing.pass_time(120)
    finding = only(workers.look(seen(presence(worker))), State.WARNING)
    assert finding.found.endswith("answers over the broker, but its last heartbeat was 120 s ago.")


def test_a_worker_of_another_database_is_told() -> None:
    finding = only(workers.look(seen(presence())), State.WARNING)
    assert finding.found.endswith("has no row in this database.")
    assert "same database" in finding.remedy


def test_a_worker_of_the_site_that_runs_no_tools_is_no_worker_of_theirs() -> None:
    none, other = workers.look(seen(presence(None, "mail", runs_tools=False)))
    assert none.state == State.FAILED
    assert (other.state, "takes mail" in other.found) == (State.OK, True)


@pytest.mark.usefixtures("_digging")
def test_each_queue_of_a_tool_is_told_with_who_takes_it(worker: UUID) -> None:
    deep, usual = tool_queues.look(seen(presence(worker, "mcp")))
    assert (deep.state, deep.found) == (State.FAILED, "deep (dig): none wait, and no worker takes it.")
    assert "mcp worker --queues deep" in deep.remedy
    assert (usual.state, usual.found) == (State.OK, "mcp (delve): none wait, 1 worker takes it.")


@pytest.mark.usefixtures("_digging")
def test_an_administrators_queue_counts_and_a_disabled_tool_does_not(worker: UUID) -> None:
    Tool.objects.create(name="dig", location="x", enabled=False)
    Tool.objects.create(name="delve", location="x", queue="slow")
    assert only(tool_queues.look(seen(presence(worker, "slow"))), State.OK).found.startswith("slow (delve)")


@pytest.mark.usefixtures("_digging")
def test_requests_that_wait_beyond_the_alarm_have_failed(worker: UUID, configure: Any) -> None:
    configure(QUEUE_ALARM_AFTER=60.0)
    row = rows.queued(queue="mcp")
    rows.queued(queue="mcp")
    taking = seen(presence(worker, "mcp", "deep"))
    assert [finding.state for finding in tool_queues.look(taking)] == [State.OK, State.OK]
    Request.objects.filter(pk=row.pk).update(queued_at=F("queued_at") - timedelta(seconds=90))
    _, finding = tool_queues.look(taking)
    assert finding.state == State.FAILED
    assert "2 wait, the oldest for 90." in finding.found
    assert 'the alarm is at 60 s (MCP["QUEUE_ALARM_AFTER"])' in finding.found


@pytest.mark.usefixtures("_digging")
def test_a_queue_of_no_tool_in_which_requests_wait_is_told() -> None:
    rows.queued(queue="former")
    *_, finding = sorted(tool_queues.look(seen()), key=lambda finding: "former" in finding.found)
    assert (finding.state, finding.found.split(":")[0]) == (State.FAILED, "former (no tool of this code)")


def test_a_site_without_tools_is_told_so() -> None:
    with isolated_registries():
        assert only(tool_queues.look(seen()), State.WARNING).found == "There are no tools."


def test_supervision_is_told_by_who_goes_round(worker: UUID) -> None:
    processes.beat(Identity(ProcessRole.SUPERVISOR))
    assert only(rounds.look(seen()), State.OK).found.startswith("1 worker and 1 supervisor go round, last heard of ")


def test_supervision_by_nobody_is_told() -> None:
    finding = only(rounds.look(seen()), State.WARNING)
    assert finding.found.endswith("Nothing is overdue.")
    assert "mcp supervise" in finding.remedy


def test_what_no_round_has_ended_has_failed(worker: UUID) -> None:
    rows.running(uuid4())
    rows.queued()
    ageing.pass_time(3600)
    found = only(rounds.look(seen()), State.FAILED).found
    assert "1 open call is of workers that are gone." in found
    assert "2 are past the deadline by more than" in found


def test_a_running_call_of_a_worker_that_lives_is_not_overdue(worker: UUID) -> None:
    rows.running(worker)
    only(rounds.look(seen()), State.OK)


def test_results_are_told_by_the_newest() -> None:
    assert only(results.look(seen()), State.OK).found == "django-db: none was stored yet."
    TaskResult.objects.create(task_id="1", status="SUCCESS")
    assert only(results.look(seen()), State.OK).found == "django-db: the newest was stored 0 s ago."


def test_an_audit_that_is_not_sealed_for_minutes_is_told() -> None:
    rows.cancel(rows.queued())
    assert only(sealing.look(seen()), State.OK).found == "Of what is final 1 not sealed, the oldest for 0 s."
    with past_the_triggers():
        Cancellation.objects.all()._settle({"settled_at": F("settled_at") - timedelta(seconds=600)})
        finding = only(sealing.look(seen()), State.WARNING)
    assert "the oldest for 600 s" in finding.found
    assert "mcp supervise --once" in finding.remedy
