"""Cancellations in the admin: pages, filters and search show everything, and no user can change it."""

import html
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.http import urlencode

from mcp_app import databases
from mcp_app.models import Cancellation, Tool
from mcp_app.states import Cause, Outcome, Stage, Status
from tests.admin.pages import words
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")

LogIn = Callable[..., Client]
LIST = "/admin/mcp_app/cancellation/"
HOSTILE = "<script>alert(1)</script>\u202egpj.exe\x1b[2J"


@pytest.fixture
def auditor(log_in: LogIn) -> Client:
    return log_in("view_cancellation")


def attempt(**columns: Any) -> Cancellation:
    """Return the audit row of a kill that an administrator requested."""
    asked = datetime.now(UTC)
    kill = {
        "request_id": uuid4(),
        "tool": "search",
        "issuer": "https://issuer.example",
        "subject": "u-1",
        "client_id": "c-1",
        "principal_label": "ada@example.com",
        "client_name": "Editor",
        "cause": Cause.ADMIN,
        "actor": "boss",
        "actor_address": "192.0.2.7",
        "reason": "it hangs",
        "outcome": Outcome.ACCEPTED,
        "status_before": Status.RUNNING,
        "status_after": Status.CANCELLED,
        "stage": Stage.KILL,
        "requested_at": asked,
        "stopped_at": asked + timedelta(seconds=5.25),
        "latency_ms": 5250.0,
        "settled_at": asked + timedelta(seconds=5.25),
    }
    return Cancellation.objects.create(**(kill | columns))


def page(row: Cancellation) -> str:
    return f"{LIST}{row.pk}/change/"


def found(client: Client, **query: Any) -> list[int]:
    """Return the ids of the rows that the list shows, in its order."""
    response = client.get(f"{LIST}?{urlencode(query)}")
    assert response.status_code == 200, response
    return [row.pk for row in response.context["cl"].result_list]


def test_the_list_tells_who_stopped_what_and_how(auditor: Client) -> None:
    row = attempt()
    asked = f"{timezone.localtime(row.requested_at):%Y-%m-%d %H:%M:%S}"
    stopped = f"{timezone.localtime(row.stopped_at):%Y-%m-%d %H:%M:%S}"
    assert (
        f"{asked} search administrator boss (192.0.2.7) it hangs accepted kill 5.2 s running → cancelled {stopped} "
        f"ada@example.com Editor {row.request_id}"
    ) in words(auditor.get(LIST))


def test_a_request_is_linked_while_it_exists_for_whoever_may_see_it(log_in: LogIn) -> None:
    auditor = log_in("view_cancellation", "view_request")
    kept = attempt(request_id=rows.queued().pk)
    gone = attempt()
    for url in (LIST, page(kept), page(gone)):
        shown = auditor.get(url).content.decode()
        assert (f'href="/admin/mcp_app/request/{kept.request_id}/change/"' in shown) == (url != page(gone))
        assert f"/admin/mcp_app/request/{gone.request_id}" not in shown
    shown = log_in("view_cancellation", name="ada").get(LIST).content.decode()
    assert str(kept.request_id) in shown
    assert f"/admin/mcp_app/request/{kept.request_id}" not in shown


def test_more_rows_cost_no_more_queries(log_in: LogIn) -> None:
    auditor = log_in("view_cancellation", "view_request")

    def queries() -> int:
        with CaptureQueriesContext(databases.connection()) as mine:
            assert auditor.get(LIST).status_code == 200
        return len(mine)

    attempt(request_id=rows.queued().pk)
    before = queries()
    for _ in range(5):
        attempt(request_id=rows.queued().pk)
    assert queries() == before


@pytest.mark.parametrize(
    ("columns", "facts"),
    [
        ({}, ("Accepted", "running", "ended", "cancelled", "5.2 s later", "kill")),
        ({"settled_at": None, "status_after": ""}, ("Accepted", "running", "not stopped")),
        ({"outcome": Outcome.DENIED}, ("Denied", "nothing was changed")),
        ({"outcome": Outcome.UNKNOWN, "request_id": None, "requested_id": "tea"}, ("no such request",)),
    ],
)
def test_a_page_tells_the_story(auditor: Client, columns: dict[str, Any], facts: tuple[str, ...]) -> None:
    row = attempt(**columns)
    response = auditor.get(page(row))
    [story] = re.findall(r' field-story.*?<bdi class="mcp-text">(.*?)</bdi>', response.content.decode(), re.DOTALL)
    told = html.unescape(story)
    asked = ("boss (192.0.2.7)", "administrator", "“it hangs”")
    assert all(fact in told for fact in (*asked, *facts)), told
    assert f"Request: {row.requested_id or row.request_id} " in words(response)


def test_a_page_has_everything_that_is_known(auditor: Client) -> None:
    shown = words(auditor.get(page(attempt(reason="r" * 1000))))
    for value in ("https://issuer.example", "u-1", "c-1", "Editor", "r" * 1000, "192.0.2.7", "kill", "5.2 s"):
        assert value in shown


def test_filters_find_what_they_say(auditor: Client) -> None:
    now = datetime.now(UTC)
    Tool.objects.create(name="search", location="x")
    old = attempt(requested_at=now - timedelta(days=40), tool="gone", actor="ada", stage=Stage.INTERRUPT).pk
    late = attempt(requested_at=now - timedelta(days=20), outcome=Outcome.TOO_LATE, stage=Stage.NONE).pk
    week = attempt(requested_at=now - timedelta(days=5), cause=Cause.DISCONNECT, stage=Stage.COOPERATIVE).pk
    today = attempt(requested_at=now).pk
    day = f"{timezone.localtime(now) - timedelta(days=20):%Y-%m-%d}"
    assert found(auditor) == [today, week, late, old]
    assert found(auditor, within="today") == [today]
    assert found(auditor, within="7") == [today, week]
    assert found(auditor, within="30") == [today, week, late]
    assert found(auditor, **{"from": day}) == [today, week, late]
    assert found(auditor, to=day) == [late, old]
    assert found(auditor, **{"from": day, "to": day}) == [late]
    assert found(auditor, cause__exact="disconnect") == [week]
    assert found(auditor, outcome__exact="too_late") == [late]
    assert found(auditor, stage__exact="2") == [old]
    assert found(auditor, tool="gone") == [old]
    assert found(auditor, actor="ada") == [old]
    assert found(auditor, actor="ad") == []
    assert found(auditor, actor=" ", **{"from": ""}) == [today, week, late, old]
    assert found(auditor, tool="search", within="30", outcome__exact="accepted") == [today, week]


def test_a_typed_filter_keeps_the_others(auditor: Client) -> None:
    attempt(actor="<b>boss</b>")
    shown = auditor.get(f"{LIST}?within=7&actor=%3Cb%3Eboss%3C%2Fb%3E&q=it").content.decode()
    assert '<input type="hidden" name="within" value="7">' in shown
    assert '<input type="hidden" name="q" value="it">' in shown
    assert 'name="actor" value="&lt;b&gt;boss&lt;/b&gt;"' in shown
    assert '<a href="?q=it&amp;within=7">Clear</a>' in shown


@pytest.mark.parametrize("query", ["within=9", "from=yesterday", "to=2026-02-30", "to=9999-12-31", "stage__exact=x"])
def test_a_filter_that_makes_no_sense_is_dropped(auditor: Client, query: str) -> None:
    for url in (LIST, f"{LIST}export/"):
        response = auditor.get(f"{url}?{query}")
        assert (response.status_code, response["Location"]) == (302, f"{LIST}?e=1")


@pytest.mark.parametrize("query", ["reason__regex=(a%2B)%2B", "request_id__isnull=1", "nonsense=1"])
def test_a_look_up_that_no_filter_offers_is_refused(auditor: Client, query: str) -> None:
    assert auditor.get(f"{LIST}?{query}").status_code == auditor.get(f"{LIST}export/?{query}").status_code == 400


def test_search_finds_ids_exactly_and_words_anywhere(auditor: Client) -> None:
    one = attempt(reason="the disk is full", actor="ada")
    other = attempt(reason="", principal_label="grace@example.com")
    unknown = attempt(request_id=None, requested_id=str(uuid4()), reason="")
    for term, expected in (
        (str(one.request_id), [one.pk]),
        (one.request_id.hex, [one.pk]),
        (unknown.requested_id, [unknown.pk]),
        (str(UUID(int=0)), []),
        ("DISK full", [one.pk]),
        ("grace@", [other.pk]),
        ("ada", [unknown.pk, one.pk]),
        ("100%", []),
    ):
        assert found(auditor, q=term) == expected, term


@pytest.mark.fault("G9")
def test_nobody_adds_changes_or_deletes_an_audit_row(log_in: LogIn) -> None:
    row = attempt()
    before = Cancellation.objects.values().get()
    root = log_in(is_superuser=True)
    forged = {"reason": "nothing happened", "cause": "client", "actor": "x", "outcome": "denied"}
    assert root.get(f"{LIST}add/").status_code == 403
    assert root.post(f"{LIST}add/", forged).status_code == 403
    assert root.post(page(row), forged).status_code == 403
    assert root.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    root.post(LIST, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes", "index": "0"})
    root.post(LIST, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})
    root.post(LIST, {"_save": "", "form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "form-0-id": row.pk, **forged})
    assert Cancellation.objects.values().get() == before
    assert "Delete" not in words(root.get(LIST)) + words(root.get(page(row)))


def test_who_may_not_view_it_sees_nothing_of_the_audit(log_in: LogIn) -> None:
    row = attempt()
    stranger = log_in("view_tool", "view_request")
    for url in (LIST, page(row), f"{LIST}export/"):
        assert stranger.get(url).status_code == 403
    assert Client().get(f"{LIST}export/").status_code == 302


@pytest.mark.fault("G7")
def test_what_clients_wrote_is_words(auditor: Client) -> None:
    texts = dict.fromkeys(
        ("tool", "issuer", "subject", "client_id", "principal_label", "client_name", "actor", "reason", "requested_id"),
        HOSTILE,
    )
    row = attempt(**texts, actor_address="<script>", request_id=None)
    for url in (LIST, page(row), f"{LIST}?{urlencode({'actor': HOSTILE, 'tool': HOSTILE})}"):
        response = auditor.get(url)
        shown = response.content.decode()
        assert "<script>alert" not in shown
        assert "<script>)" not in shown
        assert "\\u202egpj.exe\\u001b[2J" in words(response)
