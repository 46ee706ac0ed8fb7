"""The admin cancels all requests that resemble one, and a request's page links its parent and children."""

from uuid import uuid4

import pytest

from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Cancellation
from mcp_app.states import Cause, Outcome, Status
from tests.admin.conftest import CANCEL, SEE, admin_messages
from tests.lifecycle import families
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")

IN_FLIGHT = "/admin/mcp_app/inflightrequest/"


def address(row, kind):
    return f"/admin/mcp_app/request/{row.pk}/cancel-all/{kind}/"


def page(browser, row):
    response = browser.get(f"/admin/mcp_app/request/{row.pk}/change/")
    assert response.status_code == 200
    return response.content.decode()


def asked(*found):
    return [rows.fresh(row).cancel_requested_at is not None for row in found]


@pytest.fixture
def family(worker):
    """Returns a running request, one that it started, and others that have one property in common with it."""
    parent = rows.running(worker, session=uuid4())
    return {
        "parent": parent,
        "child": families.running_child(parent, worker, tool="delve"),
        "tool": rows.queued(principal=rows.STRANGER),
        "caller": rows.queued(tool="mine"),
        "session": rows.queued(tool="mine", principal=rows.STRANGER, session=parent.session),
    }


@pytest.mark.parametrize(
    ("kind", "hit"),
    [
        ("caller", {"parent", "child", "caller"}),
        ("tool", {"parent", "child", "tool"}),
        ("session", {"parent", "child", "session"}),
        ("children", {"child"}),
    ],
)
def test_all_that_is_like_a_request_is_cancelled_in_the_users_name(operator, family, kind, hit):
    looked = operator.get(address(family["parent"], kind))
    assert looked.status_code == 200
    assert not any(asked(*family.values()))
    response = operator.post(address(family["parent"], kind), {"reason": "an incident"})
    assert response.url == IN_FLIGHT
    assert {name for name, row in family.items() if asked(row) == [True]} == hit
    for row in (family[name] for name in hit - {"child"}):
        [attempt] = rows.audited(row)
        assert (attempt.actor, attempt.actor_address, attempt.reason) == ("grace", "127.0.0.1", "an incident")
        assert (attempt.cause, attempt.outcome) == (Cause.ADMIN, Outcome.ACCEPTED)
        assert attempt.part_of
    assert admin_messages(response)[0].endswith("cancelled")


def test_who_looks_is_told_how_many_are_meant(operator, family):
    shown = operator.get(address(family["parent"], "caller"))
    assert (shown.context["count"], len(shown.context["lines"])) == (3, 3)
    assert str(family["caller"].pk) in shown.content.decode()
    assert "caller Ada" in shown.content.decode()


def test_a_group_that_is_empty_by_now_is_said_to_be(operator, worker):
    row = rows.stopping(worker)
    [told] = admin_messages(operator.post(address(row, "tool"), {"reason": "late"}))
    assert "No request" in told
    assert rows.outcomes(row) == [Outcome.ACCEPTED]


@pytest.mark.parametrize("kind", ["session", "children", "planet"])
def test_a_group_that_a_request_has_not_is_not_found(operator, worker, kind):
    row = rows.running(worker)
    assert operator.get(address(row, kind)).status_code == 404
    assert operator.post(address(row, kind)).status_code == 404


@pytest.mark.fault("G8")
@pytest.mark.parametrize("permissions", [(SEE,), (CANCEL,)])
def test_a_forged_cancellation_of_a_group_is_refused_and_audited(log_in, family, permissions):
    browser = log_in(*permissions)
    assert browser.get(address(family["parent"], "tool")).status_code == 403
    assert not Cancellation.objects.exists()
    assert browser.post(address(family["parent"], "tool"), {"reason": "let me"}).status_code == 403
    attempt = Cancellation.objects.get()
    assert (attempt.outcome, attempt.request_id) == (Outcome.DENIED, family["parent"].pk)
    assert (attempt.reason, attempt.part_of) == ("let me", "all of its tool")
    assert not any(asked(*family.values()))


def test_another_sites_form_cancels_no_group(operator, family):
    operator.handler.enforce_csrf_checks = True
    assert operator.post(address(family["parent"], "tool")).status_code == 403
    assert not any(asked(*family.values()))


def choose(browser, kind, *chosen):
    ids = [str(row.pk) for row in chosen]
    return browser.post(
        IN_FLIGHT, {"action": f"cancel_all_of_{kind}", "index": "0", "select_across": "0", "_selected_action": ids}
    )


@pytest.mark.parametrize("kind", ["caller", "tool", "session"])
def test_the_list_in_flight_leads_to_the_group_of_the_chosen_one(operator, family, kind):
    assert choose(operator, kind, family["parent"]).url == address(family["parent"], kind)


def test_the_list_wants_one_that_has_such_a_group(operator, family):
    for chosen in ([family["parent"], family["caller"]], [family["caller"]]):
        response = choose(operator, "session", *chosen)
        assert response.url == IN_FLIGHT
        assert all(fact in admin_messages(response)[-1] for fact in ("one request", "session"))


def test_only_who_may_cancel_is_offered_groups(operator, viewer, family):
    for browser, offered in ((operator, True), (viewer, False)):
        assert (address(family["parent"], "caller") in page(browser, family["parent"])) == offered
        assert ("cancel_all_of_tool" in browser.get(IN_FLIGHT).content.decode()) == offered


def test_pages_lead_from_a_request_to_what_it_started_and_back(viewer, family, worker):
    parent, child = family["parent"], family["child"]
    assert f'href="/admin/mcp_app/request/{child.pk}/change/"' in page(viewer, parent)
    assert f'href="/admin/mcp_app/request/{parent.pk}/change/"' in page(viewer, child)
    assert 'id="mcp-started"' not in page(viewer, child)
    transitions.finish(child.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert "completed" in page(viewer, parent).split('id="mcp-started"')[1].split('id="mcp-timeline"')[0]


def test_the_story_says_what_was_cancelled_in_the_same_act(operator, family):
    operator.post(address(family["parent"], "tool"), {"reason": "an incident"})
    assert "part of “tool dig”" in page(operator, family["parent"])
    assert f"part of “started by {family['parent'].pk}”" in page(operator, family["child"])
