"""One log record for each ended call: a sentence for people, fields for programs, no payload."""

import json
import logging

import pytest

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.statistics import tallies
from mcp_app.lifecycle.supervision import rounds
from mcp_app.states import Cause, Stage, Status
from tests.support import rows

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@pytest.fixture
def told(caplog):
    """The log records so far."""
    caplog.set_level(logging.INFO, "mcp_app.calls")
    return lambda: [record for record in caplog.records if record.name == "mcp_app.calls"]


def test_each_ended_call_is_logged_once_with_its_outcome(worker, told):
    row = rows.running(worker, trace_context=TRACE, arguments={"password": "swordfish"})
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result={"content": [{"text": "swordfish"}]})
    rows.running(worker)
    for _ in range(2):
        rounds.supervise()
    [record] = told()
    assert record.levelno == logging.INFO
    assert record.getMessage().startswith("dig of Ada completed after 0.")
    fields = json.loads(json.dumps(record.mcp_call))
    ended = rows.fresh(row)
    assert fields["finished_at"] == ended.finished_at.isoformat()
    assert fields["ran"] == (ended.finished_at - ended.claimed_at).total_seconds()
    expected = {"request": str(row.pk), "tool": "dig", "status": "completed", "caller": "Ada", "subject": "7"}
    expected |= {"cancel_cause": None, "stage": None, "stopped_after": None, **TRACE}
    assert fields == fields | expected
    assert "swordfish" not in str(record.__dict__)


def test_a_cancelled_call_is_logged_with_its_cause_and_stage(worker, told):
    row = rows.stopping(worker, Cause.DISCONNECT)
    transitions.finish(row.pk, Status.CANCELLED, worker=worker, stage=Stage.KILL)
    rounds.supervise()
    [record] = told()
    assert "cancelled (disconnect, stage kill)" in record.getMessage()
    assert (record.mcp_call["cancel_cause"], record.mcp_call["stage"]) == ("disconnect", "kill")
    assert record.mcp_call["stopped_after"] >= 0


def test_names_with_line_breaks_cannot_forge_log_lines(told):
    forger = Principal("site", "9", "", "Eve\nINFO dig of Ada completed\x1b[2J")
    rows.cancel(rows.queued(principal=forger, tool="dig\r\n"))
    rounds.supervise()
    [record] = told()
    assert record.getMessage().isprintable()


def test_a_call_whose_counting_failed_is_not_logged(worker, told, monkeypatch):
    row = rows.running(worker)
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)

    def refuse(sums):
        raise RuntimeError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(tallies, "_add", refuse)
        assert not rounds.supervise()
    assert told() == []
    assert rounds.supervise()
    assert len(told()) == 1
