"""Cancelling all calls of a tool, a caller or a session is one act, and audits each request once."""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from uuid import uuid4

import pytest

from mcp_app.conf import settings
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation, groups
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.sessions import sessions
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Request, Session
from mcp_app.states import Cause, Outcome, Status
from tests.lifecycle import families
from tests.support import rows
from tests.support.racing import race

GRACE = Actor("Grace", "192.0.2.9")
BEGIN = {"protocol_version": "2025-11-25", "client_info": {}, "client_capabilities": {}, "subjects": ()}


def cancel(group, reason="enough"):
    return groups.cancel(group, cause=Cause.ADMIN, actor=GRACE, reason=reason)


def asked(*found):
    return [rows.fresh(row).cancel_requested_at is not None for row in found]


def test_all_of_a_tools_are_cancelled_and_no_others(worker):
    ours = rows.running(worker), rows.queued(), rows.asking(worker)
    other = rows.running(worker, tool="delve")
    assert cancel(groups.of_tool("dig")) == Counter({Outcome.ACCEPTED: 3})
    assert asked(*ours, other) == [True, True, True, False]
    for row in ours:
        [attempt] = rows.audited(row)
        assert (attempt.cause, attempt.actor, attempt.actor_address) == (Cause.ADMIN, "Grace", "192.0.2.9")
        assert (attempt.reason, attempt.part_of) == ("enough", "tool dig")


def test_all_of_a_callers_are_those_of_its_whole_principal(worker):
    theirs = rows.queued(principal=rows.STRANGER)
    same_user = rows.queued(principal=replace(rows.OWNER, client_id="another client"))
    ours = rows.running(worker)
    cancel(groups.of_principal(rows.OWNER))
    assert asked(ours, theirs, same_user) == [True, False, False]


def test_all_of_a_sessions_are_cancelled_with_what_they_started(worker):
    session = uuid4()
    parent = rows.running(worker, session=session, protocol_version="2025-11-25")
    child, stranger = families.running_child(parent, worker), rows.running(worker, session=uuid4())
    assert cancel(groups.of_session(session)) == Counter({Outcome.ACCEPTED: 1})
    assert asked(parent, child, stranger) == [True, True, False]
    assert rows.fresh(child).cancel_cause == Cause.PARENT


def test_everything_is_everything_that_is_open(worker):
    ended = rows.running(worker)
    transitions.finish(ended.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    before = rows.everything(ended)
    open_rows = rows.running(worker), rows.queued(tool="delve", principal=rows.STRANGER)
    assert cancel(groups.EVERYTHING)[Outcome.ACCEPTED] == 2
    assert asked(*open_rows) == [True, True]
    assert rows.everything(ended) == before


def test_what_is_to_stop_already_keeps_its_first_cause_and_gets_no_second_audit_row(worker):
    row = rows.stopping(worker, Cause.DISCONNECT)
    before = rows.everything(row)
    assert cancel(groups.of_tool("dig")) == Counter()
    assert rows.everything(row) == before


def test_many_go_in_bounded_transactions_the_queued_before_the_running(worker, monkeypatch):
    together = []
    stored = cancellation.cancel_all

    def watched(asks, **options):
        together.append([rows.fresh(Request(pk=ask.request_id)).status for ask in asks])
        return stored(asks, **options)

    running, queued = [rows.running(worker) for _ in range(3)], [rows.queued() for _ in range(4)]
    monkeypatch.setattr(cancellation, "TOGETHER", 2)
    monkeypatch.setattr(cancellation, "cancel_all", watched)
    assert cancel(groups.of_tool("dig"))[Outcome.ACCEPTED] == 7
    assert [len(batch) for batch in together] == [2, 2, 2, 1]
    assert list(chain(*together)) == [Status.QUEUED] * 4 + [Status.RUNNING] * 3
    assert all(asked(*running, *queued))


def test_what_comes_while_it_runs_is_left_alone(worker, monkeypatch):
    late = []
    stored = cancellation.cancel_all

    def flood(asks, **options):
        late.append(rows.queued())
        return stored(asks, **options)

    found = [rows.queued() for _ in range(5)]
    monkeypatch.setattr(cancellation, "TOGETHER", 1)
    monkeypatch.setattr(cancellation, "cancel_all", flood)
    assert cancel(groups.of_tool("dig"))[Outcome.ACCEPTED] == 5
    assert asked(*found) == [True] * 5
    assert asked(*late) == [False] * 5


def test_two_at_once_cancel_each_once_and_audit_each_once(worker):
    found = [rows.running(worker) for _ in range(20)] + [rows.queued() for _ in range(20)]
    told = race(*[partial(cancel, groups.of_tool("dig"))] * 2)
    assert sum(outcomes[Outcome.ACCEPTED] for outcomes in told) == 40
    assert [rows.outcomes(row) for row in found] == [[Outcome.ACCEPTED]] * 40


def test_one_that_cannot_be_stored_keeps_no_other_from_it(worker, monkeypatch):
    found = [rows.running(worker) for _ in range(3)]
    accepted = cancellation.audit.accepted_running

    def fail(attempt, row, **at):
        if row.pk == found[1].pk:
            raise cancellation.DatabaseError("this one cannot")
        return accepted(attempt, row, **at)

    monkeypatch.setattr(cancellation.audit, "accepted_running", fail)
    assert cancel(groups.of_tool("dig")) == Counter({Outcome.ACCEPTED: 2})
    assert asked(*found) == [True, False, True]


def test_the_end_of_a_session_whose_process_died_is_finished(worker, monkeypatch):
    session = sessions.begin(rows.OWNER, **BEGIN)
    call = sessions.submit(rows.submission(session=session.pk, protocol_version="2025-11-25"))
    with monkeypatch.context() as dying:
        # The call arrives after the first query.
        looks = chain([partial(groups.open_in, groups.of_tool("none of that name"))], repeat(partial(exit, 9)))
        dying.setattr(groups, "open_in", lambda group: next(looks)())
        with pytest.raises(SystemExit):
            sessions.end(session.pk, actor=GRACE)
    assert asked(call) == [False]
    assert sessions.find(session.pk, rows.OWNER) is None
    for _ in range(2):
        rounds.supervise()
    assert rows.fresh(call).status == Status.CANCELLED
    [attempt] = rows.audited(call)
    assert (attempt.cause, attempt.reason) == (Cause.CLIENT, sessions.ENDED)
    assert attempt.actor == rows.OWNER.label


def test_the_calls_of_a_session_are_asked_to_stop_before_it_is_gone(worker, monkeypatch):
    session = sessions.begin(rows.OWNER, **BEGIN)
    call = sessions.submit(rows.submission(session=session.pk, protocol_version="2025-11-25"))
    forget = sessions._delete

    def supervised(session_ids):
        forget(session_ids)
        rounds.supervise()

    monkeypatch.setattr(sessions, "_delete", supervised)
    sessions.end(session.pk, actor=GRACE)
    [attempt] = rows.audited(call)
    assert attempt.actor == GRACE.name


def test_a_session_that_got_a_call_meanwhile_is_not_taken_for_silent(worker, monkeypatch):
    session = sessions.begin(rows.OWNER, **BEGIN)
    Session.objects.update(seen_at=from_now(-10 * settings.SESSION_IDLE_SECONDS))
    forget_silent = sessions._delete_expired

    def later(session_ids):
        assert session_ids == [session.pk]
        sessions.submit(rows.submission(session=session.pk, protocol_version="2025-11-25"))
        forget_silent(session_ids)

    monkeypatch.setattr(sessions, "_delete_expired", later)
    sessions.expire()
    assert sessions.reload(session.pk) is not None


def test_workers_are_told_of_all_in_one_word(worker, monkeypatch):
    told = []
    monkeypatch.setattr(publishing, "tell_workers_to_stop", lambda *ids: told.append(("stop", *ids)))
    monkeypatch.setattr(publishing, "revoke", lambda *ids: told.append(("revoke", *ids)))
    running, queued = [rows.running(worker) for _ in range(3)], [rows.queued() for _ in range(2)]
    cancel(groups.of_tool("dig"))
    assert told == [("stop", *[row.pk for row in running]), ("revoke", *[row.pk for row in queued])]
