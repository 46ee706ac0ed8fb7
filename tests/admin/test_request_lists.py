"""Lists of requests: their rows, columns, filters and search."""

import pytest

from mcp_app.lifecycle.requests import transitions
from mcp_app.models import CancelledRequest, InFlightRequest, Request, Tool
from mcp_app.states import CancelPolicy, Cause, Status
from tests.admin.conftest import CANCEL, SEE, SEE_PAYLOAD
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")

LISTS = {"request": Request, "inflightrequest": InFlightRequest, "cancelledrequest": CancelledRequest}


def listed(browser, name, query=""):
    response = browser.get(f"/admin/mcp_app/{name}/?{query}")
    assert response.status_code == 200
    return {row.pk for row in response.context["cl"].result_list}


@pytest.fixture
def some(worker):
    """Returns the ids of requests in different states, by the name of the state."""
    completed = rows.running(worker)
    transitions.finish(completed.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    cancelled = rows.queued(tool="fill")
    rows.cancel(cancelled, Cause.ADMIN, "too dear")
    stopping = rows.stopping(worker, cancel_policy=CancelPolicy.COOPERATIVE)
    running, queued = rows.running(worker), rows.queued()
    return {
        "completed": completed.pk, "cancelled": cancelled.pk, "stopping": stopping.pk,
        "running": running.pk, "queued": queued.pk,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("request", ["completed", "cancelled", "stopping", "running", "queued"]),
        ("inflightrequest", ["stopping", "running", "queued"]),
        ("cancelledrequest", ["cancelled", "stopping"]),
    ],
)
def test_every_request_is_in_the_lists_that_it_belongs_to(log_in, some, name, points):
    assert listed(log_in(SEE), name) == {some[point] for point in points}


@pytest.mark.parametrize(
    ("name", "query", "points"),
    [
        ("request", "status__exact=completed", ["completed"]),
        ("request", "tool=fill", ["cancelled"]),
        ("inflightrequest", "status=queued", ["queued"]),
        ("cancelledrequest", "cancel_cause__exact=admin", ["cancelled"]),
        ("cancelledrequest", "stage__exact=0&status__exact=running", ["stopping"]),
        ("request", "q=too+dear", ["cancelled"]),
        ("request", "q=nobody", []),
    ],
)
def test_a_filter_leaves_what_it_says(log_in, some, name, query, points):
    Tool.objects.create(name="fill", location="tests")
    assert listed(log_in(SEE), name, query) == {some[point] for point in points}


def test_requests_of_several_endpoints_are_told_apart_where_a_site_has_them(log_in, some, configure):
    browser = log_in(SEE)
    Request.objects.filter(pk=some["running"]).update(endpoint="staff")
    assert "By endpoint" not in browser.get("/admin/mcp_app/request/").content.decode()
    configure(ENDPOINTS={"public": {"PATH": "/mcp/public"}, "staff": {"PATH": "/mcp/staff"}})
    assert "By endpoint" in browser.get("/admin/mcp_app/request/").content.decode()
    for name in ("request", "inflightrequest"):
        assert listed(browser, name, "endpoint=staff") == {some["running"]}
    shown = browser.get(f"/admin/mcp_app/request/{some['running']}/change/").content.decode()
    assert '<bdi class="mcp-text">staff</bdi>' in shown


def test_a_request_is_found_by_its_id(log_in, some):
    assert listed(log_in(SEE), "request", f"q=+{some['running']}+") == {some["running"]}


def test_a_request_that_is_to_stop_and_still_runs_says_both(log_in, some):
    shown = log_in(SEE).get("/admin/mcp_app/inflightrequest/").content.decode()
    assert "running, cancel requested" in shown
    assert "cooperative only" in shown


def test_the_cancelled_tell_who_asked_and_why(log_in, some):
    shown = log_in(SEE).get("/admin/mcp_app/cancelledrequest/").content.decode()
    for part in ("administrator", "Ada", "too dear", "none"):
        assert part in shown


def test_progress_messages_are_payload(log_in, worker):
    row = rows.running(worker)
    transitions.record(row.pk, [], progress=3.0, progress_total=12.0, progress_message="MESSAGE")
    for browser, sees in ((log_in(SEE), False), (log_in(SEE, SEE_PAYLOAD, name="other"), True)):
        shown = browser.get("/admin/mcp_app/inflightrequest/").content.decode()
        assert "3 of 12" in shown
        assert ("MESSAGE" in shown) == sees


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("look_up", ["arguments__depth=3", "result__isnull=1", "error__icontains=x", "events__data=1"])
def test_payload_cannot_be_guessed_at_through_the_address(log_in, some, name, look_up):
    response = log_in(SEE).get(f"/admin/mcp_app/{name}/?{look_up}")
    assert response.status_code == 400


def test_every_list_is_one_click_from_the_index(log_in):
    shown = log_in(SEE).get("/admin/").content.decode()
    for name in LISTS:
        assert f'href="/admin/mcp_app/{name}/"' in shown


@pytest.mark.parametrize("name", LISTS)
def test_nobody_sees_a_list_without_the_permission(log_in, name):
    browser = log_in(CANCEL, SEE_PAYLOAD)
    assert browser.get(f"/admin/mcp_app/{name}/").status_code == 403
    assert f"/mcp_app/{name}/" not in browser.get("/admin/").content.decode()
