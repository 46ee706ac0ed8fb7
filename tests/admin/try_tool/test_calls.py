"""Trying a tool makes a real call in the user's name, and a page that is sent twice makes one call."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from mcp_app.auth.authentication import principal_of
from mcp_app.auth.principal import Principal
from mcp_app.models import Request
from mcp_app.states import Status
from mcp_app.testing.client import Client as MCPClient
from tests.admin.pages import words
from tests.admin.try_tool.forms import CALL, MAY, SEE_TOOLS, TOOLS, LogIn, Recorder, address, called, loaded, run, send
from tests.support.racing import race

pytestmark = pytest.mark.django_db(databases="__all__")


def test_the_form_runs_a_tool_and_leads_to_the_page_of_its_request(tester: Client, mcp_client: MCPClient) -> None:
    response = run(tester, pattern="axle", limit="3", part="all")
    row = called()
    assert response.url == f"/admin/mcp_app/request/{row.pk}/change/"
    assert row.status == Status.QUEUED
    mcp_client._worker.run_queued()
    row.refresh_from_db()
    assert row.status == Status.COMPLETED
    assert row.result["content"] == [{"type": "text", "text": "axle 3 all"}]
    assert "search" in words(tester.get(response.url))


def test_who_called_is_who_would_have_with_the_site_s_own_login(tester: Client, queue: Recorder) -> None:
    form = {"_mode": "fields", "argument/pattern": "a"}
    send(tester, "search", form, REMOTE_ADDR="192.0.2.7", HTTP_ACCEPT_LANGUAGE="de")
    row = called()
    assert Principal.of(row) == principal_of(User.objects.get(username="tester"))
    assert (row.scopes, row.remote_address, row.language) == (None, "192.0.2.7", "de")
    assert (row.server, row.session, row.client_capabilities, row.parent) == (None, None, {}, None)
    assert queue.sent == [row.pk]


def test_the_history_of_the_tool_tells_who_tried_it(tester: Client, queue: Recorder) -> None:
    run(tester, pattern="a")
    assert f"request {called().pk}" in words(tester.get(f"{TOOLS}search/history/"))


def test_a_page_that_is_sent_twice_has_called_once(tester: Client, queue: Recorder) -> None:
    form = {"_mode": "fields", "argument/pattern": "a", "_page": loaded(tester)}
    first, second = (tester.post(address(), form) for _ in range(2))
    row = called()
    assert first.url == second.url == f"/admin/mcp_app/request/{row.pk}/change/"
    assert queue.sent == [row.pk]
    assert "already made" in words(tester.get(second.url))
    assert LogEntry.objects.count() == 1


def test_who_may_not_see_requests_calls_once_as_well(log_in: LogIn, queue: Recorder) -> None:
    browser = log_in(CALL, SEE_TOOLS)
    form = {"_mode": "fields", "argument/pattern": "a", "_page": loaded(browser)}
    assert {browser.post(address(), form).url for _ in range(2)} == {address()}
    assert queue.sent == [called().pk]


def test_filled_in_otherwise_or_loaded_anew_it_is_another_call(tester: Client, queue: Recorder) -> None:
    form = {"_mode": "fields", "argument/pattern": "a", "_page": loaded(tester)}
    for changed in ({}, {"argument/pattern": "b"}, {"_page": loaded(tester)}):
        assert tester.post(address(), form | changed).status_code == 302
    assert len(queue.sent) == Request.objects.count() == 3


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_a_page_that_is_sent_twice_at_one_moment_has_called_once(tester: Client, queue: Recorder) -> None:
    form = {"_mode": "fields", "_page": loaded(tester, "alone")}
    answers = race(lambda: tester.post(address("alone"), form).url, lambda: tester.post(address("alone"), form).url)
    assert set(answers) == {f"/admin/mcp_app/request/{called().pk}/change/"}
    assert set(queue.sent) == {called().pk}


def test_a_form_that_this_user_was_not_shown_for_this_tool_calls_nothing(
    tester: Client, log_in: LogIn, queue: Recorder
) -> None:
    others = loaded(log_in(*MAY, name="other"))
    for page in ("", "x", others, loaded(tester, "rare"), loaded(tester)[:-1]):
        form = {"_mode": "fields", "argument/pattern": "a", "_page": page}
        assert "not the one" in words(tester.post(address(), form))
    assert not Request.objects.exists()
