"""Checks of workers, queues, supervision, results and the audit."""

import re
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
from mcp_app.diagnosis import audit, queues, results, supervision, workers
from mcp_app.diagnosis.examination import State
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.models import Cancellation, Process, Request, Tool
from mcp_app.states import ProcessRole
from tests.diagnosis.conftest import answer, only, shared
from tests.lifecycle import ageing
from tests.lifecycle.tampering import past_the_triggers
from tests.support import rows


@pytest.fixture
def worker() -> UUID:
    """The boot id of a worker with a fresh heartbeat: this process."""
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    return identity.boot_id


@pytest.fixture
def _digging() -> Iterator[None]:
    """Two tools, each with its own queue."""
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


def test_a_worker_with_a_heartbeat_and_an_answer_is_reported_with_its_queues(worker: UUID) -> None:
    found = only(workers.check(shared(answer(worker, "mcp", "deep"))), State.OK).found
    assert found.startswith(f"{socket.gethostname()}:")
    assert worker.hex[:8] in found
    assert re.search(r"heartbeat \d+\.\d s\b.* takes mcp, deep\.$", found)


def test_a_site_without_workers_has_failed() -> None:
    finding = only(workers.check(shared()), State.FAILED)
    assert "No worker" in finding.found
    assert "heartbeat" not in finding.found
    assert "python manage.py mcp worker" in finding.remedy


def test_a_worker_of_the_sites_own_tasks_does_not_count_as_one_that_runs_tools() -> None:
    other = answer(uuid4(), "celery", runs_tools=False)
    missing, alive = workers.check(shared(other))
    assert (missing.state, alive.state) == (State.FAILED, State.OK)
    assert "No worker" in missing.found
    assert "heartbeat" not in missing.found


def test_a_silent_worker_does_not_count_and_is_reported_as_the_last_one(worker: UUID) -> None:
    ageing.pass_time(300)
    found = only(workers.check(shared()), State.FAILED).found
    assert all(fact in found for fact in ("No worker", socket.gethostname(), "heartbeat 300 s"))


def test_a_worker_whose_process_is_gone_does_not_count_despite_a_fresh_heartbeat(worker: UUID) -> None:
    Process.objects.update(pid=4_000_000)
    only(workers.check(shared()), State.FAILED)


def test_a_worker_that_has_stopped_is_not_reported() -> None:
    identity = Identity(ProcessRole.WORKER)
    processes.beat(identity)
    processes.stop(identity)
    found = only(workers.check(shared()), State.FAILED).found
    assert "No worker" in found
    assert "heartbeat" not in found


def test_a_heartbeat_without_an_answer_over_the_broker_is_reported(worker: UUID) -> None:
    finding = only(workers.check(shared()), State.WARNING)
    assert re.search(r"\bno response\b.* [\d.]+ s\.", finding.found)


def test_missing_answers_are_not_reported_if_the_broker_is_down(worker: UUID) -> None:
    assert "not be asked" in only(workers.check(shared(silent=True)), State.OK).found


def test_an_answer_without_a_heartbeat_is_reported(worker: UUID) -> None:
    ageing.pass_time(120)
    finding = only(workers.check(shared(answer(worker))), State.WARNING)
    assert re.search(r"\bresponds\b.* heartbeat\b.* 120 s\b", finding.found)


def test_a_worker_of_another_database_is_reported() -> None:
    finding = only(workers.check(shared(answer())), State.WARNING)
    assert "no row" in finding.found
    assert "same database" in finding.remedy


def test_a_worker_that_runs_no_tools_does_not_consume_their_queue() -> None:
    none, other = workers.check(shared(answer(None, "mail", runs_tools=False)))
    assert none.state == State.FAILED
    assert (other.state, "takes mail" in other.found) == (State.OK, True)


@pytest.mark.usefixtures("_digging")
def test_each_queue_of_a_tool_is_reported_with_its_workers(worker: UUID) -> None:
    deep, usual = queues.check(shared(answer(worker, "mcp")))
    assert deep.state == State.FAILED
    assert re.match(r"deep \(dig\): none wait\b.* no worker\b", deep.found)
    assert "mcp worker --queues deep" in deep.remedy
    assert usual.state == State.OK
    assert re.match(r"mcp \(delve\): none wait\b.* 1 worker\b", usual.found)


@pytest.mark.usefixtures("_digging")
def test_an_administrators_queue_counts_and_a_disabled_tool_does_not(worker: UUID) -> None:
    Tool.objects.create(name="dig", location="x", enabled=False)
    Tool.objects.create(name="delve", location="x", queue="slow")
    assert only(queues.check(shared(answer(worker, "slow"))), State.OK).found.startswith("slow (delve)")


@pytest.mark.usefixtures("_digging")
def test_requests_that_wait_beyond_the_alarm_have_failed(worker: UUID, configure: Any) -> None:
    configure(QUEUE_ALARM_AFTER=60.0)
    row = rows.queued(queue="mcp")
    rows.queued(queue="mcp")
    taking = shared(answer(worker, "mcp", "deep"))
    assert [finding.state for finding in queues.check(taking)] == [State.OK, State.OK]
    Request.objects.filter(pk=row.pk).update(queued_at=F("queued_at") - timedelta(seconds=90))
    _, finding = queues.check(taking)
    assert finding.state == State.FAILED
    assert re.search(r"\b2 wait\b.* 90\.", finding.found)
    assert ' 60 s (MCP["QUEUE_ALARM_AFTER"])' in finding.found


@pytest.mark.usefixtures("_digging")
def test_a_queue_of_no_tool_in_which_requests_wait_is_reported() -> None:
    rows.queued(queue="former")
    *_, finding = sorted(queues.check(shared()), key=lambda finding: "former" in finding.found)
    assert finding.state == State.FAILED
    assert re.match(r"former \(.*\bno tool\b", finding.found)


def test_a_site_without_tools_is_reported() -> None:
    with isolated_registries():
        assert "no tools" in only(queues.check(shared()), State.WARNING).found


def test_supervision_is_reported_with_the_processes_that_carry_it_out(worker: UUID) -> None:
    processes.beat(Identity(ProcessRole.SUPERVISOR))
    found = only(supervision.check(shared()), State.OK).found
    assert re.search(r"\b1 worker and 1 supervisor\b.* heartbeat \d", found)


def test_missing_supervision_is_reported() -> None:
    finding = only(supervision.check(shared()), State.WARNING)
    assert "Nothing is overdue" in finding.found
    assert "mcp supervise" in finding.remedy


def test_overdue_requests_have_failed(worker: UUID) -> None:
    rows.running(uuid4())
    rows.queued()
    ageing.pass_time(3600)
    found = only(supervision.check(shared()), State.FAILED).found
    assert re.search(r"\b1 running call\b.* gone\b", found)
    assert re.search(r"\b2 open requests\b.* deadline\b", found)


def test_a_running_call_of_a_live_worker_is_not_overdue(worker: UUID) -> None:
    rows.running(worker)
    only(supervision.check(shared()), State.OK)


def test_results_are_reported_with_the_age_of_the_newest() -> None:
    assert re.match(r"django-db: .*\bnone\b", only(results.check(shared()), State.OK).found)
    TaskResult.objects.create(task_id="1", status="SUCCESS")
    assert re.match(r"django-db: .* 0 s ago", only(results.check(shared()), State.OK).found)


def test_the_age_of_results_is_right_on_a_site_without_time_zones(settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"
    TaskResult.objects.create(task_id="1", status="SUCCESS")
    assert re.match(r"django-db: .* 0 s ago", only(results.check(shared()), State.OK).found)


def test_an_audit_that_is_not_sealed_for_minutes_is_reported() -> None:
    rows.cancel(rows.queued())
    assert re.search(r"not sealed\b.*\b1\b.* 0 s\b", only(audit.check(shared()), State.OK).found)
    with past_the_triggers():
        Cancellation.objects.all()._settle({"settled_at": F("settled_at") - timedelta(seconds=600)})
        finding = only(audit.check(shared()), State.WARNING)
    assert " 600 s" in finding.found
    assert "mcp supervise --once" in finding.remedy
