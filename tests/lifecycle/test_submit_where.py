"""A request that is stored where a condition holds, by one statement: as any is, or not at all."""

from django.db import OperationalError

from mcp_app.lifecycle import inserting, transitions
from mcp_app.lifecycle.columns import Condition
from mcp_app.models import Request
from tests.lifecycle import rows

HOLDS = Condition("%s = 1", [1])
HOLDS_NOT = Condition("%s = 1", [2])


def stored():
    return Request.objects.count()


def test_where_the_condition_holds_the_row_is_what_it_would_be_without():
    plain = transitions.submit(rows.submission())
    made = transitions.submit_where(rows.submission(), HOLDS)
    own = ("id", "queue", "submitted_at", "queued_at", "deadline_at")
    one, other = (
        {name: value for name, value in rows.everything(row)[0].items() if name not in own} for row in (plain, made)
    )
    assert one == other
    assert rows.story(made) == rows.story(plain)
    stored_as = rows.fresh(made)
    assert stored_as.deadline_at > stored_as.queued_at
    assert stored_as.submitted_at == made.submitted_at


def test_where_it_does_not_hold_nothing_is_stored():
    assert transitions.submit_where(rows.submission(), HOLDS_NOT) is None
    assert stored() == 0


def test_a_commit_whose_answer_was_lost_is_found(monkeypatch):
    insert_where = inserting.insert_where

    def lose_the_answer(*args):
        insert_where(*args)
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(inserting, "insert_where", lose_the_answer)
    submission = rows.submission()
    made = transitions.submit_where(submission, HOLDS)
    assert made is not None
    assert made.pk == submission.id
    assert stored() == 1


def test_what_a_database_that_was_away_has_not_heard_of_is_stored_by_nobody(monkeypatch):
    def be_away(*args):
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(inserting, "insert_where", be_away)
    assert transitions.submit_where(rows.submission(), HOLDS) is None
    assert stored() == 0
