"""Calls that are submitted at the same moment are stored together, and each has its own outcome."""

from django.db import DatabaseError, OperationalError

from mcp_app.lifecycle.requests import statements, transitions
from mcp_app.models import Request, RequestEvent
from tests.support import rows


def test_rows_stored_together_have_each_its_own_columns_and_its_own_first_event():
    wanted = [rows.submission(jsonrpc_id=number, tool=f"t{number}", caller_limit=10.0 + number) for number in range(4)]
    stored = transitions._store(wanted)
    assert [(row.pk, row.jsonrpc_id, row.tool) for row in stored] == [
        (each.id, each.jsonrpc_id, each.tool) for each in wanted
    ]
    for each, row in zip(wanted, stored, strict=True):
        found = Request.objects.get(pk=each.id)
        assert (found.jsonrpc_id, found.tool, found.arguments) == (each.jsonrpc_id, each.tool, each.arguments)
        assert (found.submitted_at, found.queued_at) == (row.submitted_at, row.queued_at)
        assert abs((found.deadline_at - found.queued_at).total_seconds() - each.caller_limit) < 1.0
        assert RequestEvent.objects.filter(request=found).values_list("seq", "kind", "data").get() == (
            1,
            "transition",
            {"status": "queued"},
        )


def test_submissions_of_one_moment_are_all_stored_but_the_one_that_cannot_be():
    wanted = [rows.submission(depth=-1 if number == 2 else 0) for number in range(4)]
    outcomes = transitions.submit_all(wanted)
    assert [isinstance(each, DatabaseError) for each in outcomes] == [False, False, True, False]
    stored = {each.id for each in wanted if each.depth == 0}
    assert {each.pk for each in outcomes if isinstance(each, Request)} == stored
    assert set(Request.objects.values_list("pk", flat=True)) == stored


def test_large_submissions_of_one_moment_are_all_stored():
    """MySQL refuses a statement of more than `max_allowed_packet`, by default 16 MiB."""
    wanted = [rows.submission(arguments={"text": "x" * 3_900_000}) for _ in range(5)]
    assert [each.pk for each in transitions.submit_all(wanted) if isinstance(each, Request)] == [
        each.id for each in wanted
    ]


def test_a_database_that_is_away_is_so_for_all_of_one_moment(monkeypatch):
    def away(*args):
        asked.append(args)
        raise OperationalError("away")

    asked: list[object] = []
    monkeypatch.setattr(statements, "submit", away)
    monkeypatch.setattr("mcp_app.lifecycle.database.retries.GIVE_UP_AFTER", 0.0)
    outcomes = transitions.submit_all([rows.submission(), rows.submission()])
    assert all(isinstance(each, OperationalError) for each in outcomes)
    assert len(asked) == 1


def test_submissions_that_are_repeated_together_make_no_second_rows():
    wanted = [rows.submission() for _ in range(3)]
    transitions.submit(wanted[1])
    assert [each.pk for each in transitions.submit_all(wanted) if isinstance(each, Request)] == [
        each.id for each in wanted
    ]
    assert Request.objects.count() == RequestEvent.objects.count() == 3


def test_a_submission_that_is_repeated_makes_no_second_row():
    wanted = rows.submission()
    first, again = transitions.submit(wanted), transitions.submit(wanted)
    assert first.pk == again.pk
    assert Request.objects.count() == RequestEvent.objects.count() == 1


def test_a_stored_row_is_as_the_database_has_it():
    """A missing value is the model's default, both in the row and in the result of `submit`."""
    stored = transitions.submit(rows.submission())
    found = Request.objects.get(pk=stored.pk)
    names = {field.attname for field in Request._meta.concrete_fields} - {"deadline_at"}
    assert {name: getattr(stored, name) for name in names} == {name: getattr(found, name) for name in names}
