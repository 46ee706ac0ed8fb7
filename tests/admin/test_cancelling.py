"""Only a POST of a user with the permission cancels in the admin. Rejected attempts are audited, too."""

import re
from collections.abc import Sequence

import pytest
from django.test import Client

from mcp_app.admin.requests import cancelling
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Cancellation
from mcp_app.states import Cause, Outcome, Status
from tests.admin.conftest import CANCEL, SEE, admin_messages
from tests.admin.pages import words
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")

LISTS = ["request", "inflightrequest", "cancelledrequest"]


def one(browser, row, **fields):
    return browser.post(f"/admin/mcp_app/request/{row.pk}/cancel/", fields)


def several(browser, request_ids: Sequence, name="request", **fields):
    ids = ",".join(str(request_id) for request_id in request_ids)
    return browser.post(f"/admin/mcp_app/{name}/cancel/", {"request_ids": ids, **fields})


def choose(browser, *chosen, name="request", query="", **fields):
    """Send the form of a list's action, as a browser does it."""
    ids = [str(row.pk) for row in chosen]
    fields = {"action": "cancel_selected", "index": "0", "select_across": "0", "_selected_action": ids, **fields}
    return browser.post(f"/admin/mcp_app/{name}/{query}", fields)


def test_a_running_request_is_asked_to_stop_in_the_users_name(operator, worker):
    row = rows.running(worker)
    response = one(operator, row, reason="too dear")
    assert response.url == f"/admin/mcp_app/request/{row.pk}/change/"
    assert admin_messages(response) == ["1 cancelled"]
    after = rows.fresh(row)
    assert (after.status, after.cancel_cause, after.cancel_actor) == (Status.RUNNING, Cause.ADMIN, "grace")
    [attempt] = rows.audited(row)
    assert (attempt.actor, attempt.actor_address, attempt.reason) == ("grace", "127.0.0.1", "too dear")


def test_who_asked_for_several_is_told_what_became_of_each(operator, worker):
    running, finished, before = rows.running(worker), rows.running(worker), rows.stopping(worker)
    transitions.finish(finished.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    chosen = [rows.queued().pk, rows.queued().pk, running.pk, finished.pk, before.pk, "nonsense"]
    response = several(operator, chosen, filters="status__exact=running")
    [told] = admin_messages(response)
    assert re.fullmatch(r"3 cancelled, 1 .*finished, 1 .*cancelled before, 1 .*unknown", told)
    assert response.url == "/admin/mcp_app/request/?status__exact=running"


def test_a_request_that_is_named_twice_is_cancelled_once(operator):
    row = rows.queued()
    assert admin_messages(several(operator, [row.pk, row.pk])) == ["1 cancelled"]
    assert rows.outcomes(row) == [Outcome.ACCEPTED]


@pytest.mark.parametrize("name", LISTS)
def test_the_action_asks_for_a_reason_and_cancels_nothing(operator, worker, name):
    row = rows.queued() if name != "cancelledrequest" else rows.stopping(worker)
    response = choose(operator, row, name=name, query="?tool=dig")
    assert str(row.pk) in response.content.decode()
    assert (response.context["request_ids"], response.context["filters"]) == (str(row.pk), "tool=dig")
    assert f'action="/admin/mcp_app/{name}/cancel/"' in response.content.decode()
    assert rows.fresh(row).status == row.status


def test_more_than_may_be_cancelled_at_once_are_left_alone_and_it_is_said(operator, monkeypatch):
    monkeypatch.setattr(cancelling, "MAX_AT_ONCE", 2)
    oldest, *_ = (rows.queued() for _ in range(3))
    response = choose(operator, oldest, select_across="1")
    offered = response.context["request_ids"].split(",")
    assert len(offered) == 2
    assert response.context["unselected"] == 1
    assert "1 more" in words(response)
    assert several(operator, [row.pk for row in (rows.queued() for _ in range(3))]).status_code == 400


def test_who_may_only_see_has_neither_button_nor_action(operator, viewer):
    row = rows.queued()
    for browser, offered in ((operator, True), (viewer, False)):
        page = browser.get(f"/admin/mcp_app/request/{row.pk}/change/").content.decode()
        listed = browser.get("/admin/mcp_app/inflightrequest/").content.decode()
        assert (f"{row.pk}/cancel/" in page) == offered
        assert ("cancel_selected" in listed) == offered


@pytest.mark.fault("G8")
@pytest.mark.parametrize(
    "forge",
    [
        lambda browser, row: one(browser, row, reason="let me"),
        lambda browser, row: several(browser, [row.pk, row.pk], reason="let me"),
        lambda browser, row: choose(browser, row, reason="let me"),
        lambda browser, row: choose(browser, row, name="inflightrequest", reason="let me"),
    ],
    ids=["page", "several", "list", "in-flight-list"],
)
def test_a_forged_cancellation_is_refused_and_audited(viewer, worker, forge):
    row = rows.running(worker)
    before = rows.fresh(row)
    assert forge(viewer, row).status_code == 403
    [attempt] = rows.audited(row)
    assert (attempt.outcome, attempt.actor, attempt.actor_address) == (Outcome.DENIED, "viewer", "127.0.0.1")
    assert (attempt.reason, attempt.cause, attempt.tool) == ("let me", Cause.ADMIN, "dig")
    assert attempt.settled_at is not None
    assert rows.fresh(row).cancel_requested_at is None
    assert rows.fresh(row).event_seq == before.event_seq


def test_a_forged_cancellation_of_what_nobody_knows_is_audited_by_its_name(viewer):
    assert several(viewer, ["<b>nonsense</b>"]).status_code == 403
    attempt = Cancellation.objects.get()
    assert (attempt.outcome, attempt.request_id, attempt.requested_id) == (Outcome.DENIED, None, "<b>nonsense</b>")


@pytest.mark.fault("G8")
def test_the_right_to_cancel_is_none_without_the_right_to_see(log_in):
    row = rows.queued()
    assert one(log_in(CANCEL), row).status_code == 403
    assert rows.outcomes(row) == [Outcome.DENIED]


def test_who_is_no_member_of_the_staff_is_sent_to_log_in(log_in):
    row = rows.queued()
    for browser in (Client(), log_in(SEE, CANCEL, is_staff=False)):
        assert one(browser, row).url.startswith("/admin/login/")
    assert rows.outcomes(row) == []


@pytest.mark.parametrize("path", ["{}/cancel/", "cancel/?request_ids={}"])
def test_looking_never_cancels(operator, path):
    row = rows.queued()
    assert operator.get(f"/admin/mcp_app/request/{path.format(row.pk)}").status_code == 405
    assert rows.fresh(row).status == Status.QUEUED


@pytest.mark.fault("G8")
def test_another_sites_form_cancels_nothing_and_is_logged_by_django(operator, caplog):
    """Django rejects it before any view. The user did not request it, so there is no audit row."""
    row = rows.queued()
    operator.handler.enforce_csrf_checks = True
    assert one(operator, row).status_code == 403
    assert several(operator, [row.pk]).status_code == 403
    assert rows.fresh(row).status == Status.QUEUED
    assert not Cancellation.objects.exists()
    refused = [record for record in caplog.records if record.name == "django.security.csrf"]
    paths = [record.request.path for record in refused]
    assert paths == [f"/admin/mcp_app/request/{row.pk}/cancel/", "/admin/mcp_app/request/cancel/"]
