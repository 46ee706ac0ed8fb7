"""Redacted values are not in a row's stored columns, and the unredacted ones are kept only while needed."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from mcp_app.conf import settings
from mcp_app.lifecycle import children, redaction, task_handles
from mcp_app.lifecycle.input import input_rounds, session_inputs, task_inputs, visits
from mcp_app.lifecycle.redaction import PayloadKind, error_without_text, loggable_error, redact, redact_each
from mcp_app.lifecycle.requests import observation, transitions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request, RequestEvent
from mcp_app.states import Status
from tests.lifecycle import families
from tests.lifecycle.ageing import pass_time
from tests.support import rows

pytestmark = pytest.mark.usefixtures("_redaction")


HUSH = {"content": [{"type": "text", "text": "hush"}]}
HIDDEN = {"content": [{"type": "text", "text": "***"}]}
ASKED = {"name": {"method": "elicitation/create", "params": {"message": "hush?"}}, **rows.QUESTIONS}
ASKED["age"] = {"method": "elicitation/create", "params": {"message": "hush, your age?"}}
SAYS = {"action": "accept", "content": {"name": "hush"}}


def hide(kind: str, tool: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: hide(kind, tool, member) for key, member in value.items()}
    if isinstance(value, list):
        return [hide(kind, tool, member) for member in value]
    return value.replace("hush", "***") if isinstance(value, str) else value


def refuse_transactions(kind: str, tool: str, value: Any) -> Any:
    from mcp_app import databases

    assert not databases.connection().in_atomic_block
    return hide(kind, tool, value)


@pytest.fixture
def _redaction(configure: Any) -> None:
    configure(REDACT=f"{__name__}.refuse_transactions")


def shown(row: Request) -> str:
    """Return everything stored about a request and its events, except the unredacted values."""
    columns = Request.objects.filter(pk=row.pk).values().get() | {"unredacted": None}
    return str([columns, *RequestEvent.objects.filter(request=row.pk).values()])


def ended(worker: UUID, **changes: Any) -> Request:
    """A completed call whose result is redacted."""
    row = rows.running(worker, **changes)
    finish(row, worker)
    return rows.fresh(row)


def finish(row: Request, worker: UUID) -> None:
    kept = {"result": redact(PayloadKind.RESULT, row.tool, HUSH).kept}
    assert transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=HUSH, kept=kept)


def answer_of(row: Request) -> Any:
    [seen] = observation.observe({row.pk: observation.WatchedRequest()})
    return seen.result


def asking(worker: UUID, **changes: Any) -> Request:
    row = rows.running(worker, **changes)
    kept = redact_each(PayloadKind.QUESTION, row.tool, ASKED).kept
    assert input_rounds.ask(row.pk, ASKED, worker=worker, kept=kept) == Status.INPUT_REQUIRED
    return rows.fresh(row)


@pytest.mark.fault("G12")
def test_a_worker_has_the_arguments_and_everybody_else_what_is_kept(worker: UUID) -> None:
    row = rows.queued(arguments={"key": "hush", "depth": 3})
    assert (row.arguments, row.redacted) == ({"key": "***", "depth": 3}, ["arguments"])
    claimed = transitions.claim(row.pk, worker=worker, pid=1)
    assert claimed.unredacted_value("arguments") == observation.arguments(row.pk) == {"key": "hush", "depth": 3}
    assert "hush" not in shown(row)


def test_what_is_kept_whole_is_stored_once(worker: UUID) -> None:
    row = ended(worker, arguments={"depth": 3})
    assert rows.queued(arguments={"depth": 3}).unredacted is None
    assert (row.redacted, list(row.unredacted)) == (["result"], ["result"])


@pytest.mark.fault("G12")
def test_the_end_of_a_call_lets_its_arguments_go_in_its_own_transaction(worker: UUID) -> None:
    queued = rows.queued(arguments={"key": "hush"})
    rows.cancel(queued)
    row = ended(worker, arguments={"key": "hush"})
    assert rows.fresh(queued).unredacted is None
    assert row.unredacted == {"result": HUSH}
    assert row.unredacted_value("arguments") == {"key": "***"}


@pytest.mark.fault("G12")
def test_a_result_goes_once_it_was_handed_over(worker: UUID) -> None:
    row = ended(worker)
    assert (answer_of(row), row.result) == (HUSH, HIDDEN)
    observation.mark_delivered([row.pk])
    assert rows.fresh(row).unredacted is None
    assert answer_of(row) == observation.final_result(rows.fresh(row))
    assert answer_of(row)["isError"]
    assert "no longer stored" in str(answer_of(row))


@pytest.mark.fault("G12")
@pytest.mark.parametrize("of_a_session", [True, False])
def test_a_result_that_nobody_came_for_goes_in_time(worker: UUID, *, of_a_session: bool) -> None:
    row = ended(worker, session=uuid4() if of_a_session else None)
    if of_a_session:  # its client may have lost the connection and fetch the result again
        observation.mark_delivered([row.pk])
    pass_time(settings.ABANDONED_AFTER - 5)
    redaction.forget_unclaimed()
    assert answer_of(row) == HUSH
    pass_time(10)
    rounds.supervise()
    assert rows.fresh(row).unredacted is None


def test_a_task_keeps_its_result_until_it_expires(worker: UUID) -> None:
    row = task_handles.submit(rows.submission())
    assert row is not None
    transitions.claim(row.pk, worker=worker, pid=1)
    finish(row, worker)
    observation.mark_delivered([row.pk])
    pass_time(settings.TASK_TTL - 60)
    redaction.forget_unclaimed()
    assert task_handles.shown(rows.fresh(row)).result == HUSH
    pass_time(120)
    redaction.forget_unclaimed()
    assert rows.fresh(row).unredacted is None


def test_a_started_call_keeps_its_result_while_the_one_that_started_it_goes_on(worker: UUID) -> None:
    parent = rows.running(worker, time_limit=3600.0)
    child = families.running_child(parent, worker)
    finish(child, worker)
    pass_time(settings.ABANDONED_AFTER + 5)
    redaction.forget_unclaimed()
    assert children.look(child.pk).result == HUSH
    transitions.finish(parent.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    redaction.forget_unclaimed()
    assert rows.fresh(child).unredacted is None


def test_what_comes_too_late_is_kept_as_a_partial_result_without_its_secrets(worker: UUID) -> None:
    row = rows.stopping(worker)
    assert transitions.give_up(row.pk)
    finish(row, worker)
    row = rows.fresh(row)
    assert (row.status, row.partial_result, row.result, row.unredacted) == (Status.CANCELLED, HIDDEN, None, None)


def test_a_protocol_error_is_told_whole_and_kept_in_part(worker: UUID) -> None:
    row = rows.running(worker)
    error = {"cause": "protocol", "code": -32602, "message": "hush"}
    kept = {"error": {**error, "message": "***"}}
    transitions.finish(row.pk, Status.FAILED, worker=worker, error=error, kept=kept)
    assert observation.protocol_error(rows.fresh(row)) == {"code": -32602, "message": "hush"}
    assert "hush" not in shown(row)


@pytest.mark.fault("G12")
def test_rounds_of_input_ask_and_answer_with_what_is_not_kept(worker: UUID) -> None:
    row = asking(worker)
    assert input_rounds.keep(row.pk, "card", "hush", worker=worker) is False  # it is not running
    assert row.unredacted_value("questions") == ASKED
    row = rows.answer(row, answers={"name": SAYS}, again={"age": ASKED["age"]})
    assert row.unredacted_value("questions") == {"age": ASKED["age"]}
    row = rows.answer(row, 2, answers={"age": SAYS})
    run = transitions.claim(row.pk, worker=worker, pid=1)
    assert run.unredacted_value("answers") == {"name": SAYS, "age": SAYS}
    assert input_rounds.keep(row.pk, "card", "hush", worker=worker, kept={"card": "***"})
    assert input_rounds.keep(row.pk, "other", 1, worker=worker)
    row = rows.fresh(row)
    assert row.unredacted_value("kept") == {"card": "hush", "other": 1}
    assert row.kept == {"card": "***", "other": 1}
    assert row.redacted == ["answers", "kept", "questions"]
    assert "hush" not in shown(row)


@pytest.mark.fault("G12")
def test_older_clients_are_asked_and_answer_the_same(worker: UUID) -> None:
    row = asking(worker, session=uuid4(), protocol_version="2025-11-25")
    name, age = session_inputs.open_questions(row.pk, after=0, until=1000)
    assert (name.question, age.question) == (ASKED["name"], ASKED["age"])
    session_inputs.ask_again(age, ASKED["age"])
    assert session_inputs.answer(name, SAYS).unredacted_value("questions") == {"age": ASKED["age"]}
    [age] = session_inputs.open_questions(row.pk, after=0, until=1000)
    row = session_inputs.answer(age, SAYS)
    assert (row.status, row.unredacted_value("answers")) == (Status.QUEUED, {"name": SAYS, "age": SAYS})
    assert "hush" not in shown(row)


def test_tasks_are_asked_and_answer_the_same(worker: UUID) -> None:
    row = asking(worker)
    assert task_inputs.open_questions(row) == ASKED
    row = task_inputs.answer(row.pk, 1, {"name": SAYS, "nobody's": SAYS})
    assert (row.unredacted_value("answers"), row.unredacted_value("questions")) == (
        {"name": SAYS},
        {"age": ASKED["age"]},
    )
    assert "hush" not in shown(row)


@pytest.mark.parametrize("protocol_version", ["2026-07-28", "2025-11-25"])
def test_what_is_done_on_a_page_is_the_tools(worker: UUID, protocol_version: str) -> None:
    row = asking(worker, protocol_version=protocol_version)
    assert visits.finish(row.pk, "age", "hush")
    row = rows.fresh(row)
    assert (row.unredacted_value("visited"), row.visited) == ({"age": "hush"}, {"age": "***"})
    assert row.unredacted_value("questions")["name"] == ASKED["name"]
    assert "hush" not in shown(row)


def test_a_logged_exception_has_the_words_that_may_be_told_and_comes_from_nowhere() -> None:
    with pytest.raises(ValueError, match="hush") as raised:
        raise ValueError("hush, outside") from KeyError("hush, inside")
    told, untold = loggable_error(raised.value, "dig"), error_without_text(raised.value)
    assert str(told) == "ValueError: ***, outside"
    assert str(untold) == "ValueError"
    assert told.__traceback__ is untold.__traceback__ is raised.value.__traceback__
    assert told.__cause__ is told.__context__ is untold.__cause__ is untold.__context__ is None
