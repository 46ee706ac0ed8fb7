"""What threads want stored at one moment is stored as one, and each of them has its own outcome."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import IntegrityError

from mcp_app.lifecycle import transitions
from mcp_app.lifecycle.together import Together
from mcp_app.models import Request, RequestEvent
from tests.lifecycle import rows
from tests.lifecycle.racing import race

PATIENCE = 20.0
OTHERS = 5


class _Writer:
    """Writes texts, the first once it may, and refuses `bad` ones."""

    def __init__(self) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.together: list[list[str]] = []
        self.alone: list[str] = []

    def write(self, values):
        self.together.append(list(values))
        if "bad" in values:
            raise ValueError("bad")
        return [value.upper() for value in values]

    def write_alone(self, value):
        self.alone.append(value)
        if value == "first":
            self.begun.set()
            assert self.may_go_on.wait(PATIENCE)
        if value == "bad":
            raise ValueError("bad")
        return value.upper()


def _put_behind_another(writer, *values):
    """What became of these, all put while another is being written."""
    together = Together(writer.write, writer.write_alone)
    with ThreadPoolExecutor(1 + len(values)) as pool:
        first = pool.submit(together.put, "first")
        assert writer.begun.wait(PATIENCE)
        others = [pool.submit(together.put, value) for value in values]
        while len(together._waiting) < len(values):
            threading.Event().wait(0.001)
        writer.may_go_on.set()
        assert first.result(PATIENCE) == "FIRST"
        for each in others:
            each.exception(PATIENCE)
        assert together.put("later") == "LATER"
        return others


def test_who_comes_alone_is_written_at_once():
    writer = _Writer()
    assert Together(writer.write, writer.write_alone).put("one") == "ONE"
    assert (writer.alone, writer.together) == (["one"], [])


def test_those_that_come_while_another_is_written_are_written_as_one():
    writer = _Writer()
    values = [f"v{number}" for number in range(OTHERS)]
    others = _put_behind_another(writer, *values)
    assert [each.result() for each in others] == [value.upper() for value in values]
    assert [sorted(batch) for batch in writer.together] == [values]


def test_one_that_fails_keeps_none_of_the_others_from_being_written():
    writer = _Writer()
    good, bad, other = _put_behind_another(writer, "good", "bad", "other")
    assert (good.result(), other.result()) == ("GOOD", "OTHER")
    with pytest.raises(ValueError, match="bad"):
        bad.result()
    assert sorted(writer.alone) == ["bad", "first", "good", "later", "other"]


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

    def submit(submission):
        try:
            return transitions.submit(submission).pk
        except IntegrityError:
            return None

    pks = race(*[lambda each=each: submit(each) for each in wanted])
    assert pks == [None if each.depth < 0 else each.id for each in wanted]
    assert set(Request.objects.values_list("pk", flat=True)) == {pk for pk in pks if pk}


def test_a_submission_that_is_repeated_makes_no_second_row():
    wanted = rows.submission()
    first, again = transitions.submit(wanted), transitions.submit(wanted)
    assert first.pk == again.pk
    assert Request.objects.count() == RequestEvent.objects.count() == 1


def test_a_stored_row_is_as_the_database_has_it():
    """What is not said of a row is its model's default, in the row and in what `submit` returns."""
    stored = transitions.submit(rows.submission())
    found = Request.objects.get(pk=stored.pk)
    names = {field.attname for field in Request._meta.concrete_fields} - {"deadline_at"}
    assert {name: getattr(stored, name) for name in names} == {name: getattr(found, name) for name in names}
