"""The dashboard shows the tallies to users with the permission, and is the only page about them."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils import timezone

from mcp_app import databases
from mcp_app.admin.dashboard import plots
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.statistics import tallies
from mcp_app.models import Process, Request, Tally, Tool
from mcp_app.states import Cause, Stage, Status
from tests.admin.pages import words
from tests.lifecycle.tallied import ended, stopped, waited
from tests.support import rows

pytestmark = [pytest.mark.usefixtures("_now"), pytest.mark.django_db(databases="__all__")]

LogIn = Callable[..., Client]
PAGE = "/admin/mcp_app/tally/"
VIEW = "view_tally"
NOW = datetime(2026, 3, 10, 15, 40, tzinfo=UTC)
HOUR = NOW.replace(minute=0)
HOSTILE = "<script>alert(1)</script>\u202egpj"


@pytest.fixture
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


@pytest.fixture
def watcher(log_in: LogIn) -> Client:
    return log_in(VIEW)


def page(client: Client, part: str = "", **query: str) -> Any:
    response = client.get(f"{PAGE}{part}?{urlencode(query)}")
    assert response.status_code == 200
    return response


def drawn(response: Any) -> dict[str, Any]:
    """Return the data from which the script draws the plots."""
    found = re.search(r'<script id="mcp-plots-data" type="application/json">(.*?)</script>', response.content.decode())
    assert found
    return json.loads(found[1])


def series(response: Any, plot: str) -> dict[str, list[float]]:
    """Return the series of a plot by name, without intervals that have no value."""
    return {each["name"]: [value for value in each["values"] if value] for each in drawn(response)[plot]["series"]}


def test_the_page_shows_what_the_tallies_hold(watcher: Client) -> None:
    ended(HOUR, count=1200, seconds=0.05)
    ended(HOUR - timedelta(hours=3), Status.FAILED, count=30)
    waited(HOUR, 5.0)
    stopped(HOUR, Cause.ADMIN, Stage.KILL, seconds=9.0, count=4)
    response = page(watcher)
    assert series(response, "calls") == {"completed": [1200], "failed": [30], "cancelled": [4], "lost": []}
    assert series(response, "causes") == {"kill": [4]}
    assert drawn(response)["causes"]["labels"] == ["administrator"]
    [wait] = series(response, "wait")["95 % (p95)"]
    assert 4 <= wait <= 6.3
    shown = words(response)
    assert "Ended calls 1,234 Failed or lost 2.4 % Cancelled 0.3 %" in shown
    assert "administrator kill 4" in shown
    assert f"{timezone.localtime(HOUR - timedelta(hours=3)):%H:%M} 0 30 0 0" in shown  # the table behind the plot
    assert "dig 1,234" in shown


def test_periods_and_tools_are_links_that_keep_each_other(watcher: Client) -> None:
    Tool.objects.create(name="dig", location="x")
    ended(HOUR, count=2)
    ended(HOUR - timedelta(days=3), count=40)
    ended(HOUR - timedelta(days=3), count=500, tool="sow")
    for query, calls in (
        ({}, 2),
        ({"period": "7d"}, 542),
        ({"period": "30d", "tool": "dig"}, 42),
        ({"tool": "sow"}, 0),
        ({"tool": "gone"}, 0),
    ):
        response = page(watcher, **query)
        assert sum(map(sum, series(response, "calls").values())) == calls
        assert ("No call" in words(response)) == (calls == 0)
        assert series(page(watcher, "statistics/", **query), "calls") == series(response, "calls")
    shown = page(watcher, period="7d", tool="dig").content.decode()
    assert '<li class="selected"> <a href="?period=7d&amp;tool=dig">Last 7 days</a>' in " ".join(shown.split())
    for link in ("?tool=dig", "?period=30d&amp;tool=dig", "?period=7d"):
        assert f'href="{link}"' in shown
    assert "Its activity" not in shown


@pytest.mark.parametrize("query", ["period=1y", "period="])
def test_a_period_that_there_is_not_is_dropped(watcher: Client, query: str) -> None:
    response = watcher.get(f"{PAGE}?{query}")
    assert (response.status_code, response["Location"]) == (302, f"{PAGE}?e=1")
    assert watcher.get(f"{PAGE}?e=1").status_code == 200


@pytest.mark.parametrize(("zone", "day"), [("UTC", "Tue 10 Mar"), ("Pacific/Auckland", "Wed 11 Mar")])
def test_a_day_begins_where_the_sites_time_zone_says(watcher: Client, zone: str, day: str) -> None:
    ended(HOUR)
    with override_settings(TIME_ZONE=zone):
        plot = drawn(page(watcher, period="7d"))["calls"]
    assert plot["labels"][-1] == day
    assert plot["series"][0]["values"] == [0] * 6 + [1]


def test_what_is_in_flight_and_who_lives_is_asked_for_apart(watcher: Client, worker: Any) -> None:
    rows.running(worker)
    rows.queued(queue="slow\u202e")
    shown = words(page(watcher, "live/"))
    assert "Queued 1 Running 1 Input required 0 Stopping 0 Workers 1 Servers 0" in shown
    assert "Oldest waiting for slow\\u202e 1 " in shown
    assert "No worker" not in shown
    assert shown.rsplit(" 1 ", 1)[0] in words(page(watcher))


def test_a_site_without_a_worker_or_that_counts_too_late_says_so(watcher: Client, worker: Any) -> None:
    request = rows.queued()
    rows.cancel(request)
    Request.objects.filter(pk=request.pk).update(finished_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert re.search(r"\b\d+ h \d+ min\b.* behind", words(page(watcher, "live/")))
    tallies.count_ended()
    Process.objects.all().delete()
    shown = words(page(watcher, "live/"))
    assert "behind" not in shown
    assert "No worker" in shown


def test_requests_are_linked_for_whoever_may_see_them(log_in: LogIn) -> None:
    link = "/admin/mcp_app/inflightrequest/?status=running"
    assert link not in page(log_in(VIEW)).content.decode()
    assert link in page(log_in(VIEW, "view_request", name="ada")).content.decode()


def test_without_the_package_of_the_plots_the_tables_stand_alone(watcher: Client, settings: Any) -> None:
    ended(HOUR, count=7)
    with_plots = page(watcher).content.decode()
    assert plots.CHARTS_SCRIPT in with_plots
    assert "pip install" not in with_plots
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != plots.CHARTS_APP]
    without = page(watcher)
    assert "pip install 'django-mcp-app[charts]'" in words(without)
    assert f"{timezone.localtime(HOUR):%H:%M} 7 0 0 0" in words(without)
    assert plots.CHARTS_SCRIPT not in without.content.decode()
    assert "mcp_app/plots.js" not in without.content.decode()


def test_the_page_runs_scripts_from_files_only(watcher: Client) -> None:
    ended(HOUR, tool=HOSTILE)
    shown = page(watcher).content.decode()
    scripts = re.findall(r"<script(?![^>]*\ssrc=)[^>]*>", shown)
    assert [script for script in scripts if "application/json" not in script] == []
    assert re.findall(r"\s(?:style|on\w+)=", shown) == []


@pytest.mark.fault("G7")
def test_a_tools_name_is_words(watcher: Client) -> None:
    ended(HOUR, tool=HOSTILE)
    for query in ({}, {"tool": HOSTILE}):
        response = page(watcher, **query)
        assert "<script>alert" not in response.content.decode()
        assert "\\u202egpj" in words(response)


def test_who_may_not_see_tallies_sees_nothing_of_them(log_in: LogIn) -> None:
    stranger = log_in("view_request", "view_cancellation", "view_tool")
    for part in ("", "live/", "statistics/"):
        assert stranger.get(PAGE + part).status_code == 403
        assert Client().get(PAGE + part).status_code == 302
    assert "Activity" not in words(stranger.get("/admin/"))


def test_it_is_in_the_index_and_the_only_page_of_tallies(log_in: LogIn, watcher: Client) -> None:
    ended(HOUR)
    row = Tally.objects.get()
    assert "Activity" in words(watcher.get("/admin/"))
    root = log_in(is_superuser=True, name="root")
    index = root.get("/admin/mcp_app/")
    assert PAGE in index.content.decode()
    for part in ("add/", f"{row.pk}/", f"{row.pk}/change/", f"{row.pk}/delete/", f"{row.pk}/history/"):
        assert root.get(PAGE + part).status_code == root.post(PAGE + part).status_code == 404
    root.post(PAGE, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes", "index": "0"})
    assert Tally.objects.filter(pk=row.pk).exists()


def test_a_tools_page_shows_how_it_is_used_to_whoever_may_see_that(log_in: LogIn) -> None:
    Tool.objects.create(name="dig", location="x")
    ended(HOUR, count=3, seconds=0.05)
    ended(HOUR - timedelta(days=3), Status.FAILED, count=1, seconds=0.05)
    ended(HOUR, count=50, tool="sow")
    response = log_in("view_tool", VIEW).get("/admin/mcp_app/tool/dig/change/")
    shown = words(response)
    assert "Last 24 hours 3 0.0 % 0.0 %" in shown
    assert "Last 7 days 4 25.0 % 0.0 %" in shown
    assert f'href="{PAGE}?tool=dig"' in response.content.decode()
    hidden = log_in("view_tool", name="ada").get("/admin/mcp_app/tool/dig/change/")
    assert "Last 24 hours" not in words(hidden)
    assert PAGE not in hidden.content.decode()


def test_more_tallies_cost_no_more_statements(watcher: Client) -> None:
    def statements() -> int:
        with CaptureQueriesContext(databases.connection()) as asked:
            page(watcher, period="30d")
        return sum("mcp_app_" in query["sql"] for query in asked)

    ended(HOUR)
    before = statements()
    for number in range(60):
        stopped(HOUR - timedelta(hours=number), Cause.CLIENT, seconds=number, tool=f"tool {number}")
    assert statements() == before <= 11


def test_a_tools_page_tells_what_of_it_is_in_flight(log_in: LogIn, worker: Any) -> None:
    Tool.objects.create(name="dig/it", location="x")
    rows.running(worker, tool="dig/it")
    rows.queued(tool="dig/it")
    rows.queued(tool="sow")
    now = "/admin/mcp_app/tool/dig_2Fit/now/"
    browser = log_in("view_tool", VIEW)
    page = browser.get("/admin/mcp_app/tool/dig_2Fit/change/")
    assert f'data-url="{now}"' in page.content.decode()
    with CaptureQueriesContext(databases.connection()) as asked:
        shown = browser.get(now)
    assert words(shown) == "Queued 1 Running 1 Input required 0 Stopping 0"
    assert words(shown) in words(page)
    assert sum("mcp_app_" in query["sql"] for query in asked) == 1
    for name, permissions in (("ada", ("view_tool",)), ("eve", (VIEW,))):
        assert log_in(*permissions, name=name).get(now).status_code == 403


@pytest.mark.parametrize("count", [1, 2])
def test_lengths_are_said_as_exactly_as_they_are_known(watcher: Client, count: int) -> None:
    ended(HOUR, count=count, seconds=20.0)
    shown = words(page(watcher))
    assert ("Ran, p50 20.0 s Ran, p95 20.0 s" in shown) == (count == 1)
    assert "single call" in shown
