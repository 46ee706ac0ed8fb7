"""The verdict finds each kind of error, and finds nothing in a correct run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.chaos.journal import Entry
from tests.chaos.ledger import Call, Ledger
from tests.chaos.rows import Attempt, Request, Rows
from tests.chaos.verdict import answers, lives, work

DONE: Final[dict[str, Any]] = {"content": [{"type": "text", "text": "done c0-1"}], "isError": False}
LOST: Final[dict[str, Any]] = {"content": [{"type": "text", "text": "lost"}], "isError": True}

COMPLETED: Final = Request(
    id="1",
    tag="c0-1",
    tool="chaos_blocking",
    protocol_version="2026-07-28",
    jsonrpc_id="c0-1",
    status="completed",
    stage=0,
    killing=False,
    cancel_cause="",
    submitted_at=100.0,
    claimed_at=101.0,
    cancel_requested_at=None,
    finished_at=110.0,
    delivered=True,
    error=None,
    result=DONE,
    protocol_error=None,
    worker_pid=1,
    event_seq=3,
    events=[(1, "transition", "queued"), (2, "transition", "running"), (3, "transition", "completed")],
)
CANCELLED: Final = replace(
    COMPLETED,
    status="cancelled",
    stage=2,
    cancel_cause="admin",
    cancel_requested_at=109.0,
    result=LOST,
    event_seq=4,
    events=[*COMPLETED.events[:2], (3, "cancel", ""), (4, "transition", "cancelled")],
)
ATTEMPT: Final = Attempt(1, "1", "admin", "accepted", True, "cancelled", 2)
ENTRY: Final = Entry("1", "c0-1", begins=1, onces=0, ends=1, last_at=109.9)


def answered() -> Call:
    call = Call("c0-1", "sse", "chaos_blocking", "stay", 0, sent_at=100.0)
    call.fate, call.answer, call.responses, call.http, call.ended_at = "answered", DONE, 1, 200, 110.1
    return call


def rows(*requests: Request, attempts: tuple[Attempt, ...] = ()) -> Rows:
    return Rows(list(requests), list(attempts), {})


def heard(*requests: Request, well: bool = True, **changes: Any) -> list[str]:
    call = answered()
    for name, value in changes.items():
        setattr(call, name, value)
    ledger = Ledger()
    ledger.open(call)
    return list(answers.findings(lambda server, since, until: not well, ledger, rows(*requests)))


def test_what_went_as_it_should_is_no_finding() -> None:
    assert list(lives.findings(rows(COMPLETED))) == []
    assert list(lives.findings(rows(CANCELLED, attempts=(ATTEMPT,)))) == []
    assert list(work.findings(rows(COMPLETED), {"1": ENTRY})) == []
    assert heard(COMPLETED) == []
    assert heard(CANCELLED, fate="left") == []
    assert heard(fate="refused", http=503, answer=None, responses=1) == []
    assert heard(CANCELLED, fate="cut", well=False) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "running", "finished_at": None, "events": COMPLETED.events[:2], "event_seq": 2},
        {"events": [COMPLETED.events[0], COMPLETED.events[2]]},
        {"events": [*COMPLETED.events[:2], (4, "transition", "completed")], "event_seq": 4},
        {"events": [*COMPLETED.events, (4, "transition", "completed")], "event_seq": 4},
        {"event_seq": 4},
        {"killing": True},
        {"finished_at": None},
        {"cancel_requested_at": 105.0},
    ],
)
def test_a_life_that_is_not_legal_is_found(wrong: dict[str, Any]) -> None:
    assert list(lives.findings(rows(replace(COMPLETED, **wrong))))


@pytest.mark.parametrize(
    "attempts",
    [
        (),
        (ATTEMPT, replace(ATTEMPT, id=2)),
        (replace(ATTEMPT, settled=False),),
        (replace(ATTEMPT, status_after=""),),
        (replace(ATTEMPT, stage=1),),
    ],
)
def test_an_audit_that_is_not_complete_is_found(attempts: tuple[Attempt, ...]) -> None:
    assert list(lives.findings(rows(CANCELLED, attempts=attempts)))


def test_a_call_with_two_rows_is_found() -> None:
    assert list(lives.findings(rows(COMPLETED, replace(COMPLETED, id="2"))))


@pytest.mark.parametrize(
    ("request_", "entry"),
    [
        (COMPLETED, replace(ENTRY, begins=2)),
        (COMPLETED, replace(ENTRY, onces=2)),
        (COMPLETED, replace(ENTRY, ends=2)),
        (COMPLETED, replace(ENTRY, ends=0)),
        (CANCELLED, replace(ENTRY, last_at=110.2)),
        (replace(CANCELLED, events=CANCELLED.events[:1]), ENTRY),
        (replace(CANCELLED, status="lost"), replace(ENTRY, last_at=130.0)),
        (replace(COMPLETED, id="2"), ENTRY),
    ],
)
def test_work_that_happened_twice_or_late_or_for_nobody_is_found(request_: Request, entry: Entry) -> None:
    assert list(work.findings(rows(request_), {"1": entry}))


@pytest.mark.parametrize(
    "judge",
    [
        lambda: heard(COMPLETED, responses=2),
        lambda: heard(COMPLETED, answer=LOST),
        lambda: heard(),
        lambda: heard(COMPLETED, fate="silent"),
        lambda: heard(COMPLETED, fate="pending"),
        lambda: heard(COMPLETED, fate="cut"),
        lambda: heard(COMPLETED, fate="refused", http=503),
        lambda: heard(COMPLETED, doors=["command 1: 0: cancelled"]),
        lambda: heard(replace(COMPLETED, tag="c9-9")),
    ],
)
def test_an_answer_that_no_row_explains_is_found(judge: Callable[[], list[str]]) -> None:
    assert judge()
