"""Many cancellations at one moment: of one request from every side, and of many requests."""

import re
from functools import partial
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.lifecycle.cancellation import cancellation, throttling
from mcp_app.lifecycle.cancellation.cancellation import CancellationRequest
from mcp_app.lifecycle.cancellation.throttling import RECORDED, BurstThrottle
from mcp_app.lifecycle.supervision import rounds
from mcp_app.models import Cancellation, Request
from mcp_app.states import Cause, EventKind, Outcome, Status
from tests.support import rows
from tests.support.racing import races

AT_ONCE = 10


@pytest.mark.fault("B3")
def test_B3_of_a_hundred_at_once_one_takes_some_are_rows_and_the_rest_is_one_row(worker):
    now = [1000.0]
    row, counts = rows.running(worker), BurstThrottle(lambda: now[0])
    ask = CancellationRequest(row.pk, Cause.CLIENT, rows.ADA, "enough", rows.OWNER)
    with races(AT_ONCE) as race:
        told = [
            outcome
            for _ in range(100 // AT_ONCE)
            for [outcome] in race.run(*[partial(cancellation.cancel_all, [ask], throttle=counts)] * AT_ONCE)
        ]
    assert sorted(told) == [Outcome.ACCEPTED] + [Outcome.DUPLICATE] * 99
    assert len(rows.story(row, EventKind.CANCEL)) == 1
    accepted, *duplicates = rows.audited(row)
    assert accepted.outcome == Outcome.ACCEPTED
    # Calls that are submitted at the same moment are admitted together.
    assert RECORDED <= len(duplicates) < RECORDED + AT_ONCE
    assert {(each.outcome, each.actor, each.reason) for each in duplicates} == {("duplicate", "Ada", "enough")}
    assert Cancellation.objects.count() == 1 + len(duplicates)
    now[0] += throttling.WINDOW_SECONDS
    counts.append_summaries()
    summary = Cancellation.objects.latest("pk")
    assert (summary.outcome, summary.cause, summary.actor) == ("duplicate", "client", "Ada")
    assert set(re.findall(r"\d+ \w+", summary.reason)) == {f"{99 - len(duplicates)} more", "60 s"}
    assert summary.settled_at is not None
    assert Cancellation.objects.count() == 2 + len(duplicates)


@pytest.mark.fault("I2")
def test_I2_a_crowd_of_queued_and_running_requests_is_stored_by_a_few_statements(worker, server):
    crowd = [rows.running(worker, server=server) for _ in range(3)] + [rows.queued(server=server) for _ in range(27)]
    asks = [CancellationRequest(row.pk, Cause.DISCONNECT, rows.ADA) for row in crowd]
    with CaptureQueriesContext(databases.connection()) as captured:
        assert cancellation.cancel_all(asks) == [Outcome.ACCEPTED] * 30
    assert len(captured) < 15, [each["sql"][:80] for each in captured]
    queued = [rows.fresh(row) for row in crowd[3:]]
    assert {row.status for row in queued} == {Status.CANCELLED}
    assert len({row.cancel_requested_at for row in queued}) == 1
    assert [rows.outcomes(row) for row in crowd] == [[Outcome.ACCEPTED]] * 30
    told = ("cancel", {"cause": "disconnect", "actor": "Ada", "reason": ""})
    assert rows.story(crowd[0])[2:] == [told]
    assert rows.story(crowd[-1])[1:] == [told, ("transition", {"status": "cancelled"})]
    assert rows.numbers(crowd[-1]) == [1, 2, 3]


def test_attempts_in_vain_that_are_stored_together_are_bounded_too():
    counts = BurstThrottle()
    asks = [CancellationRequest(uuid4(), Cause.CLIENT, rows.ADA, principal=rows.OWNER) for _ in range(5 * RECORDED)]
    assert cancellation.cancel_all(asks, throttle=counts) == [Outcome.UNKNOWN] * len(asks)
    assert Cancellation.objects.count() == RECORDED
    counts.append_summaries(all_windows=True)
    reason = Cancellation.objects.latest("pk").reason
    assert set(re.findall(r"\d+ \w+", reason)) == {f"{4 * RECORDED} more", "60 s"}


@pytest.fixture
def administrator():
    user = User.objects.create_user("root", is_staff=True)
    rights = Permission.objects.filter(
        content_type__app_label="mcp_app", codename__in=("view_request", "cancel_request")
    )
    user.user_permissions.set(rights)
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.mark.fault("B4")
def test_B4_of_an_administrator_a_client_and_a_deadline_at_one_moment_the_first_stays(worker, administrator):
    first = set()
    with races(3) as race:
        for _ in range(12):
            row = rows.running(worker)
            ask = CancellationRequest(row.pk, Cause.CLIENT, rows.ADA, "changed my mind", rows.OWNER)
            answered, *_ = race.run(
                partial(administrator.post, f"/admin/mcp_app/request/{row.pk}/cancel/", {"reason": "too dear"}),
                partial(cancellation.cancel_all, [ask]),
                partial(rounds.cancel_at_limit, Request.objects.filter(pk=row.pk)),
            )
            assert answered.status_code == 302
            after, attempts = rows.fresh(row), rows.audited(row)
            [accepted] = [each for each in attempts if each.outcome == Outcome.ACCEPTED]
            told = (after.cancel_cause, after.cancel_actor, after.cancel_reason)
            assert told == (accepted.cause, accepted.actor, accepted.reason)
            # The deadline makes no attempt if supervision finds a request that must already stop.
            assert {each.cause for each in attempts} >= {Cause.ADMIN, Cause.CLIENT}
            assert {each.outcome for each in attempts if each is not accepted} == {Outcome.DUPLICATE}
            assert len(attempts) == len({each.cause for each in attempts})
            assert len(rows.story(row, EventKind.CANCEL)) == 1
            first.add(accepted.cause)
    assert first <= {Cause.ADMIN, Cause.CLIENT, Cause.DEADLINE}
