"""Limits, endpoints and outages affect a user who tries a tool like any other caller."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import OperationalError, connections
from django.test import Client

from mcp_app import databases
from mcp_app.conf import settings as app_settings
from mcp_app.models import Request
from mcp_app.states import Status
from tests.admin.pages import words
from tests.admin.try_tool.forms import MAY, LogIn, Recorder, address, called, refused, run, send
from tests.support import brokers

pytestmark = pytest.mark.django_db(databases="__all__")


def test_limits_hold_as_for_any_caller(tester: Client, queue: Recorder, configure: Any) -> None:
    assert run(tester, "rare").status_code == run(tester, "alone").status_code == 302
    LogEntry.objects.all().delete()
    assert "too often" in refused(tester, "rare")
    of_this_tool = refused(tester, "alone")
    assert all(fact in of_this_tool for fact in ("open calls", "this tool"))
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=2)
    of_all_tools = refused(tester, pattern="a")
    assert "open calls" in of_all_tools
    assert "this tool" not in of_all_tools
    configure(MAX_OPEN_REQUESTS_PER_PRINCIPAL=3, MAX_QUEUED_REQUESTS=2)
    assert "waiting" in refused(tester, pattern="a")
    assert len(queue.sent) == 2


def test_of_several_endpoints_the_user_chooses_among_those_that_let_them_in(
    log_in: LogIn, queue: Recorder, configure: Any
) -> None:
    browser = log_in(*MAY, name="tester")
    configure(ENDPOINTS={"public": {"PATH": "/a"}, "staff": {"PATH": "/b", "GROUPS": ["staff"]}})
    assert run(browser, "search").status_code == 403, "it is at the endpoint default, which there is not"
    assert "Endpoint" not in words(browser.get(address("both")))
    run(browser, "both")
    assert called().endpoint == "public"
    Request.objects.all().delete()
    User.objects.get(username="tester").groups.add(Group.objects.create(name="staff"))
    assert "Endpoint" in words(browser.get(address("both")))
    for response, code in (
        (run(browser, "both"), "required"),
        (send(browser, "both", {"_mode": "fields", "endpoint": "x"}), "invalid_choice"),
    ):
        [(field, [fault])] = response.context["errors"].as_data().items()
        assert (field, fault.code) == ("endpoint", code)
        assert " ".join(fault.messages) in words(response)
    send(browser, "both", {"_mode": "fields", "endpoint": "staff"})
    assert called().endpoint == "staff"


@pytest.mark.parametrize("port", [brokers.refusing_port, brokers.silent_port], ids=["refusing", "silent"])
def test_a_broker_that_is_away_is_told_and_nothing_is_left_to_run(port: Any, tester: Client, configure: Any) -> None:
    configure(PUBLISH_TIMEOUT=0.4)
    with port() as number, brokers.celery_on(brokers.URLS["amqp"].format(port=number)):
        shown = words(run(tester, pattern="a"))
        assert all(fact in shown for fact in ("task queue", "try again"))
    row = called()
    assert (row.status, row.error["cause"]) == (Status.FAILED, "broker")


def test_a_database_that_is_away_is_told_and_nothing_is_sent(tester: Client, queue: Recorder) -> None:
    def away(execute: Any, sql: str, *rest: Any) -> Any:
        if "mcp_submit" in sql or (sql.startswith("INSERT") and "mcp_app_request`" in sql):
            raise OperationalError("database is locked")
        return execute(sql, *rest)

    with databases.connection().execute_wrapper(away):
        told = refused(tester, pattern="a")
    assert all(fact in told for fact in ("not stored", "database"))
    assert queue.sent == []


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_its_row_is_committed_before_its_message_goes_out(
    tester: Client, queue: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections[app_settings.DATABASE].settings_dict, "ATOMIC_REQUESTS", True)
    assert run(tester, pattern="a").status_code == 302
    assert not queue.was_atomic
