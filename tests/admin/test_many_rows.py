"""With 100,000 requests, every list needs a bounded number of statements, which use an index."""

from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app import databases
from mcp_app.admin.lists.bounded_pages import COUNTED
from mcp_app.admin.requests.cancelling import MAX_AT_ONCE
from mcp_app.admin.requests.request_lists import SEARCHED
from mcp_app.models import Request, Tool
from mcp_app.states import CancelPolicy, Cause, Status
from tests.admin.conftest import CANCEL, SEE, SEE_PAYLOAD
from tests.admin.pages import words

pytestmark = [
    pytest.mark.usefixtures("many_requests"),
    pytest.mark.django_db(databases="__all__"),
    pytest.mark.timeout(240),
]

MANY = 100_000
SEEDS = 1_000
TOOLS = 40


@pytest.fixture(scope="module")
def many_requests(django_db_setup, django_db_blocker):
    """Stores many requests, one per second. 1 in 500 is open, 1 in 50 was cancelled."""
    newest = timezone.now()
    with django_db_blocker.unblock():
        tools = Tool.objects.bulk_create(Tool(name=f"tool{number}", location="tests") for number in range(TOOLS))
        Request.objects.bulk_create(_row(number, newest) for number in range(SEEDS))
        _multiply(MANY // SEEDS)
        yield
        with databases.connection().constraint_checks_disabled():  # SQLite would search the events of each row
            Request.objects.all()._raw_delete(databases.settings.DATABASE)
        Tool.objects.filter(pk__in=[tool.pk for tool in tools]).delete()


def _multiply(times):
    """Copy the rows in the database to earlier times, because making 100,000 rows in Python would take a minute."""
    columns = {field.column: field.column for field in Request._meta.concrete_fields}
    sqlite = databases.connection().vendor == "sqlite"
    columns["id"] = "lower(hex(randomblob(16)))" if sqlite else "gen_random_uuid()"
    for name in ("submitted_at", "cancel_requested_at"):
        seconds = f"-n * {SEEDS}"
        earlier = f"strftime('%Y-%m-%d %H:%M:%f', {name}, ({seconds}) || ' seconds')"
        columns[name] = earlier if sqlite else f"{name} + ({seconds}) * interval '1 second'"
    with databases.connection().cursor() as cursor:
        cursor.execute(
            f"WITH RECURSIVE times(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM times WHERE n < {times - 1}) "
            f"INSERT INTO mcp_app_request ({', '.join(columns)}) "
            f"SELECT {', '.join(columns.values())} FROM mcp_app_request, times"
        )


def _row(number, newest):
    at = newest - timedelta(seconds=number)
    cancelled = number % 50 == 0
    return Request(
        id=uuid4(),
        jsonrpc_id=number,
        method="tools/call",
        tool=f"tool{number % TOOLS}",
        protocol_version="2026-07-28",
        client_info={"name": "editor", "version": "1"},
        principal_label=f"caller {number % 1000}",
        status=Status.RUNNING if number % 500 == 0 else Status.CANCELLED if cancelled else Status.COMPLETED,
        submitted_at=at,
        cancel_requested_at=at if cancelled else None,
        cancel_cause=Cause.CLIENT if cancelled else "",
        cancel_policy=CancelPolicy.KILL,
        cooperative_grace=0.1,
        hard_grace=0.5,
        time_limit=60.0,
        queue="mcp",
    )


@contextmanager
def statements():
    """Yield a list that receives the statements on this app's tables at the end of the block."""
    executed = []
    with CaptureQueriesContext(databases.connection()) as captured:
        yield executed
    executed += [query["sql"] for query in captured.captured_queries if "mcp_app_" in query["sql"]]


def plan(sql):
    """Return how SQLite finds the requests' rows for a statement. Empty for other engines."""
    if databases.connection().vendor != "sqlite":
        return []
    with databases.connection().cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        return [step for *_, step in cursor.fetchall() if "mcp_app_request" in step]


@pytest.fixture
def browser(log_in):
    return log_in(SEE, SEE_PAYLOAD, CANCEL)


def _sorted(browser, name, direction):
    """Return the query that sorts a list by its time."""
    shown = browser.get(f"/admin/mcp_app/{name}/").context["cl"].list_display
    return f"o={direction}{shown.index('asked' if name == 'cancelledrequest' else 'submitted')}"


@pytest.mark.parametrize("query", ["", "status__exact=running", "tool=tool7", "p=2", "o=", "o=-", "q=caller 77"])
@pytest.mark.parametrize("name", ["request", "inflightrequest", "cancelledrequest"])
def test_a_list_costs_its_tools_its_count_and_its_rows_by_an_index(browser, name, query):
    if name == "inflightrequest":
        query = query.replace("status__exact", "status")
    if query.startswith("o="):
        query = _sorted(browser, name, query.removeprefix("o="))
    with statements() as executed:
        response = browser.get(f"/admin/mcp_app/{name}/?{query}", follow=True)
    assert response.status_code == 200
    besides = 2 if name == "inflightrequest" else 0  # places in queues, heartbeats of workers
    assert len(executed) <= (4 if query.startswith("q=") else 3) + besides
    for sql in executed:
        assert '"arguments"' not in sql
        assert '"result"' not in sql
        assert all("INDEX" in step for step in plan(sql))


def test_the_list_shows_a_page_of_all_and_of_the_open_and_of_the_cancelled(browser):
    for name, number in (("request", COUNTED), ("inflightrequest", MANY // 500), ("cancelledrequest", MANY // 50)):
        response = browser.get(f"/admin/mcp_app/{name}/")
        assert response.context["cl"].result_count == number
        assert len(response.context["cl"].result_list) == 50
        assert ("There are more: these are the first 10000" in words(response)) == (number == COUNTED)


def test_the_last_page_is_the_last_of_those_that_are_counted_and_days_lead_to_the_others(browser):
    newest = Request.objects.order_by("-submitted_at")
    last = browser.get(f"/admin/mcp_app/request/?p={COUNTED // 50}").context["cl"].result_list
    assert [row.pk for row in last] == [row.pk for row in newest[COUNTED - 50 : COUNTED]]
    oldest = newest.last()
    day = f"{timezone.localtime(oldest.submitted_at):%Y-%m-%d}"
    by_time = _sorted(browser, "request", "")
    found = browser.get(f"/admin/mcp_app/request/?from={day}&to={day}&{by_time}").context["cl"].result_list
    assert found[0].pk == oldest.pk


@pytest.mark.parametrize("path", ["", "?period=30d", "live/"])
def test_the_dashboard_reads_no_request_but_by_an_index(log_in, path):
    browser = log_in("view_tally")
    with statements() as executed:
        assert browser.get(f"/admin/mcp_app/tally/{path}").status_code == 200
    assert len(executed) <= (4 if path == "live/" else 11)
    assert len([step for sql in executed for step in plan(sql)]) == (
        3 if databases.connection().vendor == "sqlite" else 0
    )
    for sql in executed:
        assert all("INDEX" in step for step in plan(sql))


def test_a_text_is_looked_for_among_the_newest_only(browser):
    found = browser.get("/admin/mcp_app/request/?q=caller").context["cl"]
    assert found.result_count == SEARCHED


def test_selecting_all_of_them_offers_a_thousand_and_says_so(browser):
    chosen = {"action": "cancel_selected", "select_across": "1", "index": "0", "_selected_action": str(uuid4())}
    with statements() as executed:
        response = browser.post("/admin/mcp_app/request/", chosen)
    assert len(executed) <= 5
    assert len(response.context["lines"]) == MAX_AT_ONCE
    assert f"over {COUNTED - MAX_AT_ONCE} more are left alone" in response.content.decode()
