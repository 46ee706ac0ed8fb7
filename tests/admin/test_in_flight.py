"""The list of requests in flight updates itself: the contents, permissions and cost of an update."""

import re
from uuid import uuid4

import pytest
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.admin.requests.pages import InFlightRequestAdmin
from mcp_app.lifecycle.liveness import processes, queues
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.models import Process, Request
from mcp_app.states import ProcessRole, Status
from tests.admin.conftest import CANCEL, SEE, SEE_PAYLOAD
from tests.admin.pages import words
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")

LIVE = "/admin/mcp_app/inflightrequest/live/"


def row_text(response, row):
    """Return the visible text of a request's row."""
    [shown] = re.findall(rf'<tr id="mcp-row-{row.pk}".*?</tr>', response.content.decode(), re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", shown).split())


def test_it_is_a_part_of_the_page_that_names_where_it_is_renewed(operator):
    row = rows.queued()
    whole = operator.get("/admin/mcp_app/inflightrequest/?status=queued").content.decode()
    assert f'data-url="{LIVE}?status=queued"' in whole
    for shown in (whole, operator.get(f"{LIVE}?status=queued").content.decode()):
        assert 'id="mcp-live" data-live data-open' in shown
        assert f'id="mcp-row-{row.pk}"' in shown
        assert "1 request in flight" in shown
    assert "<html" not in operator.get(LIVE).content.decode()


def test_filters_search_and_pages_hold(operator, monkeypatch):
    older, newer = rows.queued(), rows.queued(tool="fill")
    assert [row.pk for row in operator.get(f"{LIVE}?q={newer.pk}").context["cl"].result_list] == [newer.pk]
    assert operator.get(f"{LIVE}?status=running").context["cl"].result_list == []
    assert 'id="mcp-row-none"' in operator.get(f"{LIVE}?status=running").content.decode()
    assert len(operator.get(f"{LIVE}?status=queued").context["cl"].result_list) == 2
    monkeypatch.setattr(InFlightRequestAdmin, "list_per_page", 1)
    monkeypatch.setattr(InFlightRequestAdmin, "list_max_show_all", 1)
    second = operator.get(f"{LIVE}?p=2&shown={newer.pk}")
    assert f'data-url="{LIVE}?p=2"' in second.content.decode()
    assert [row.pk for row in second.context["cl"].result_list] == [older.pk, newer.pk]
    assert f'data-key="{newer.pk}" data-left="moved"' in second.content.decode()
    assert operator.get(f"{LIVE}?p=3").status_code == 404


def test_those_that_wait_have_a_place_in_their_queue(operator):
    first, second, other = rows.queued(queue="mcp"), rows.queued(queue="mcp"), rows.queued(queue="slow")
    shown = operator.get(LIVE)
    assert "1st of 2 in mcp" in row_text(shown, first)
    assert "2nd of 2 in mcp" in row_text(shown, second)
    assert "1st of 1 in slow" in row_text(shown, other)
    page = words(operator.get(f"/admin/mcp_app/request/{second.pk}/change/"))
    assert "2nd of 2 in mcp" in page


def test_those_that_were_queued_at_one_moment_share_a_place(operator):
    first, second, third = (rows.queued(queue="mcp") for _ in range(3))
    moment = Request.objects.filter(pk=first.pk).values("queued_at")  # with the database's precision
    Request.objects.filter(pk=second.pk).update(queued_at=moment)
    shown = operator.get(LIVE)
    assert "1st of 3 in mcp" in row_text(shown, first)
    assert "1st of 3 in mcp" in row_text(shown, second)
    assert "3rd of 3 in mcp" in row_text(shown, third)


def test_a_long_queue_is_counted_as_far_as_anybody_needs_to_know(operator, monkeypatch):
    monkeypatch.setattr(queues, "MAX_COUNTED", 2)
    monkeypatch.setattr("mcp_app.presentation.facts.MAX_COUNTED", 2)
    first, _, third = (rows.queued(queue="mcp") for _ in range(3))
    shown = operator.get(LIVE)
    assert "1st of more than 2 in mcp" in row_text(shown, first)
    assert "more than 2 before it in mcp" in row_text(shown, third)


def test_those_that_run_tell_when_their_worker_was_heard_of_and_a_silent_one_is_marked(operator, worker, configure):
    row = rows.running(worker)
    assert re.search(r"heard \d+\.\d s ago", row_text(operator.get(LIVE), row))
    assert re.search(r"heard \d+\.\d s ago", words(operator.get(f"/admin/mcp_app/request/{row.pk}/change/")))
    configure(LOST_AFTER=0.0)
    assert "silent for" in row_text(operator.get(LIVE), row)
    assert 'mcp-lost">silent for' in operator.get(LIVE).content.decode()
    Process.objects.all().delete()
    assert "gone" in row_text(operator.get(LIVE), row)


def test_one_that_asks_waits_for_its_client(operator, worker):
    row = rows.asking(worker)
    assert "its client" in row_text(operator.get(LIVE), row)


def test_what_is_shown_and_has_ended_says_how_and_what_is_new_is_there(operator, worker):
    ended, stays = rows.running(worker), rows.running(worker)
    transitions.finish(ended.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    came = rows.queued()
    shown = operator.get(LIVE, {"shown": f"{ended.pk},{stays.pk},{uuid4()},nonsense"})
    assert "completed" in row_text(shown, ended)
    assert f'id="mcp-row-{ended.pk}" data-key="{ended.pk}" data-left="ended"' in shown.content.decode()
    assert f'id="mcp-row-{stays.pk}" data-key="{stays.pk}">' in shown.content.decode()
    assert f'id="mcp-row-{came.pk}"' in shown.content.decode()
    assert "2 requests in flight" in words(shown)


def test_messages_are_withheld_from_who_may_not_see_payload(log_in, worker):
    row = rows.running(worker)
    transitions.record(row.pk, [], progress=3.0, progress_total=12.0, progress_message="MESSAGE")
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    for browser, sees in ((log_in(SEE), False), (log_in(SEE, SEE_PAYLOAD, name="other"), True)):
        shown = browser.get(LIVE, {"shown": str(row.pk)}).content.decode()
        assert "3 of 12" in shown
        assert ("MESSAGE" in shown) == sees


def test_nobody_is_told_without_the_permission_and_a_stranger_is_sent_to_the_login(log_in, client):
    assert log_in(CANCEL).get(LIVE).status_code == 403
    assert "/login/" in client.get(LIVE).url
    assert log_in(SEE, name="other").get(LIVE, {"arguments__depth": "3"}).status_code == 400


@pytest.mark.parametrize("number", [1, 40])
def test_a_renewal_costs_the_same_however_much_is_in_flight(log_in, configure, number):
    configure(ENDPOINTS={"partners": {"PATH": "/partners"}})  # so that every optional column is shown
    browser, workers = log_in(SEE, SEE_PAYLOAD, CANCEL), [Identity(ProcessRole.WORKER) for _ in range(3)]
    for each in workers:
        processes.beat(each)
    made = [rows.queued(queue=f"queue{index % 3}") for index in range(number)]
    made += [rows.running(workers[index % 3].boot_id) for index in range(number)]
    ended = rows.running(workers[0].boot_id)
    transitions.finish(ended.pk, Status.COMPLETED, worker=workers[0].boot_id, result=rows.RESULT)
    with CaptureQueriesContext(databases.connection()) as captured:
        shown = browser.get(LIVE, {"shown": ",".join(str(row.pk) for row in (*made[:50], ended))})
    assert shown.status_code == 200
    executed = [query["sql"] for query in captured.captured_queries if "mcp_app_" in query["sql"]]
    # tools for the filter, count, page, places and each queue, heartbeats, requests that have ended
    assert len(executed) <= 6 + len({row.queue for row in made})
    assert not [sql for sql in executed if '"arguments"' in sql or '"result"' in sql or '"unredacted"' in sql]


def test_places_are_counted_by_an_index():
    if databases.connection().vendor != "sqlite":
        pytest.skip("a plan of SQLite's")
    with CaptureQueriesContext(databases.connection()) as captured:
        queues.places([rows.queued().pk])
    sql = captured.captured_queries[-1]["sql"]
    with databases.connection().cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        steps = [step for *_, step in cursor.fetchall()]
    assert len([step for step in steps if "COVERING INDEX mcp_request_waiting" in step]) == 1


@pytest.mark.urls("tests.admin.backstage")
def test_an_admin_of_another_name_renews_from_its_own_address(operator):
    row = rows.queued()
    whole = operator.get("/backstage/mcp_app/inflightrequest/").content.decode()
    assert 'data-url="/backstage/mcp_app/inflightrequest/live/"' in whole
    shown = operator.get("/backstage/mcp_app/inflightrequest/live/").content.decode()
    assert f'href="/backstage/mcp_app/request/{row.pk}/change/"' in shown
    assert '"/admin/' not in shown
    assert Request.objects.count() == 1
