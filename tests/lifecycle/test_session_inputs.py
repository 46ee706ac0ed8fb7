"""Questions identified by their event: each is answered once, in its session."""

from uuid import UUID, uuid4

import pytest

from mcp_app.lifecycle.input import input_rounds, session_inputs
from mcp_app.lifecycle.input.session_inputs import OpenQuestion
from mcp_app.models import Request
from mcp_app.states import EventKind, Status
from tests.support import rows
from tests.support.racing import race

AGE = {"method": "elicitation/create", "params": {"message": "Your age?"}}
YES = {"action": "accept", "content": {}}


@pytest.fixture
def asking(worker: UUID) -> Request:
    """A call of a session that asks for a name and an age."""
    row = rows.running(worker, session=uuid4(), protocol_version="2025-11-25")
    assert input_rounds.ask(row.pk, {**rows.QUESTIONS, "age": AGE}, worker=worker) == Status.INPUT_REQUIRED
    return rows.fresh(row)


def outstanding(row: Request) -> list[OpenQuestion]:
    return session_inputs.open_questions(row.pk, after=0, until=1000)


def find(row: Request, asked: OpenQuestion, **changes) -> OpenQuestion | None:
    return session_inputs.find(row.pk, asked.seq, **{"session": row.session, "principal": rows.OWNER, **changes})


def test_each_question_has_an_event_of_its_own(asking):
    name, age = outstanding(asking)
    assert (name.key, name.question, age.key, age.question) == ("name", rows.QUESTIONS["name"], "age", AGE)
    told = dict(zip(rows.numbers(asking), rows.story(asking), strict=True))
    assert told[name.seq] == (EventKind.INPUT, {"asked": rows.QUESTIONS})
    assert told[age.seq] == (EventKind.INPUT, {"asked": {"age": AGE}})
    assert session_inputs.open_questions(asking.pk, after=name.seq, until=age.seq) == [age]
    assert name.elicitation_id != age.elicitation_id


def test_only_its_own_session_finds_it(asking):
    name, _ = outstanding(asking)
    assert find(asking, name) == name
    assert find(asking, name, session=uuid4()) is None
    assert find(asking, name, session=None) is None
    assert find(asking, name, principal=rows.STRANGER) is None
    assert session_inputs.find(asking.pk, 1, session=asking.session, principal=rows.OWNER) is None


def test_answers_are_kept_until_all_are_there(asking):
    name, age = outstanding(asking)
    row = session_inputs.answer(age, YES)
    assert (row.status, row.questions, row.input_round) == (Status.INPUT_REQUIRED, rows.QUESTIONS, 1)
    assert outstanding(asking) == [name]
    assert session_inputs.answer(age, YES) is None
    row = session_inputs.answer(name, rows.ADA_SAYS["name"])
    assert (row.status, row.answers) == (Status.QUEUED, {**rows.ADA_SAYS, "age": YES})
    assert row.published_at is None


def test_a_question_that_is_asked_again_is_a_new_one(asking):
    name, age = outstanding(asking)
    session_inputs.ask_again(name, {**name.question, "params": {"message": "Really?"}})
    assert rows.fresh(asking).input_round == 2
    still, again = outstanding(asking)
    assert still == age
    assert (again.key, again.question["params"]["message"]) == ("name", "Really?")
    assert again.seq > age.seq
    assert again.elicitation_id == name.elicitation_id
    assert session_inputs.answer(name, YES) is None
    session_inputs.ask_again(name, AGE)
    assert outstanding(asking) == [age, again]


def test_a_question_is_answered_only_once(asking):
    name, age = outstanding(asking)
    session_inputs.answer(age, YES)
    taken = race(*[lambda: session_inputs.answer(name, YES)] * 3)
    assert len([row for row in taken if row is not None]) == 1
    assert rows.fresh(asking).status == Status.QUEUED


def test_concurrent_answers_to_several_questions_are_all_stored(asking):
    name, age = outstanding(asking)
    race(lambda: session_inputs.answer(name, YES), lambda: session_inputs.answer(age, YES))
    row = rows.fresh(asking)
    assert (row.status, row.answers) == (Status.QUEUED, {"name": YES, "age": YES})


def test_a_call_that_was_cancelled_while_it_asked_takes_no_answers_and_keeps_its_questions(asking):
    name, age = outstanding(asking)
    rows.cancel(asking)
    assert session_inputs.answer(name, YES) is None
    assert find(asking, name) is None
    assert outstanding(asking) == [name, age]
