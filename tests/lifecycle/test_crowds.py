"""Many that cancel one request at one moment, from every side (faults B3, B4)."""

from functools import partial

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from mcp_app.lifecycle import bursts, cancellation, supervision
from mcp_app.lifecycle.bursts import RECORDED, Bursts
from mcp_app.lifecycle.cancellation import Ask
from mcp_app.models import Cancellation, Request
from mcp_app.states import Cause, EventKind, Outcome
from tests.lifecycle import rows
from tests.lifecycle.racing import races

AT_ONCE = 10


@pytest.mark.fault("B3")
def test_B3_of_a_hundred_at_once_one_takes_some_are_rows_and_the_rest_is_one_row(worker):
    now = [1000.0]
    row, counts = rows.running(worker), Bursts(lambda: now[0])
    ask = Ask(row.pk, Cause.CLIENT, rows.ADA, "enough", rows.OWNER)
    with races(AT_ONCE) as race:
        told = [
            outcome
            for _ in range(100 // AT_ONCE)
            for [outcome] in race.run(*[partial(cancellation.cancel_all, [ask], bursts=counts)] * AT_ONCE)
        ]
    assert sorted(told) == [Outcome.ACCEPTED] + [Outcome.DUPLICATE] * 99
    assert len(rows.story(row, EventKind.CANCEL)) == 1
    accepted, *duplicates = rows.audited(row)
    assert accepted.outcome == Outcome.ACCEPTED
    # Those that are under way together are admitted together.
    assert RECORDED <= len(duplicates) < RECORDED + AT_ONCE
    assert {(each.outcome, each.actor, each.reason) for each in duplicates} == {("duplicate", "Ada", "enough")}
    assert Cancellation.objects.count() == 1 + len(duplicates)
    now[0] += bursts.WINDOW_SECONDS
    counts.append_summaries()
    summary = Cancellation.objects.latest("pk")
    assert (summary.outcome, summary.cause, summary.actor) == ("duplicate", "client", "Ada")
    assert summary.reason == f"{99 - len(duplicates)} more such attempts within 60 s"
    assert summary.settled_at is not None
    assert Cancellation.objects.count() == 2 + len(duplicates)


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
            Request.objects.filter(pk=row.pk).update(deadline_at="2020-01-01T00:00:00Z")
            ask = Ask(row.pk, Cause.CLIENT, rows.ADA, "changed my mind", rows.OWNER)
            answered, *_ = race.run(
                partial(administrator.post, f"/admin/mcp_app/request/{row.pk}/cancel/", {"reason": "too dear"}),
                partial(cancellation.cancel_all, [ask]),
                supervision.cancel_overdue_requests,
            )
            assert answered.status_code == 302
            after, attempts = rows.fresh(row), rows.audited(row)
            [accepted] = [each for each in attempts if each.outcome == Outcome.ACCEPTED]
            told = (after.cancel_cause, after.cancel_actor, after.cancel_reason)
            assert told == (accepted.cause, accepted.actor, accepted.reason)
            # The deadline is no attempt where supervision finds a request that is to stop already.
            assert {each.cause for each in attempts} >= {Cause.ADMIN, Cause.CLIENT}
            assert {each.outcome for each in attempts if each is not accepted} == {Outcome.DUPLICATE}
            assert len(attempts) == len({each.cause for each in attempts})
            assert len(rows.story(row, EventKind.CANCEL)) == 1
            first.add(accepted.cause)
    assert first <= {Cause.ADMIN, Cause.CLIENT, Cause.DEADLINE}
