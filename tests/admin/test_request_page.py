"""A request's page shows all stored data to users with the permissions, and executes none of it."""

import re

import pytest
from django.test.utils import CaptureQueriesContext
from django_celery_results.models import TaskResult

from mcp_app import databases
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.events import Event
from mcp_app.models import Tool
from mcp_app.presentation.formatting import TEXT_CHARS
from mcp_app.presentation.timeline import LINES
from mcp_app.states import Cause, EventKind, Stage, Status
from tests.admin import hostile
from tests.admin.conftest import CANCEL, SEE, SEE_PAYLOAD
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")


def page(browser, row, name="change", **query):
    response = browser.get(f"/admin/mcp_app/request/{row.pk}/{name}/", query)
    assert response.status_code == 200
    return response.content.decode()


def say(row, *events, **columns):
    assert transitions.record(row.pk, events, **columns)


def log(text):
    return Event(EventKind.LOG, {"level": "info", "logger": "dig", "data": text})


@pytest.fixture
def payload_row(worker):
    """Returns a request with a different word in every part of its payload."""
    row = rows.running(worker, arguments={"depth": "ARGUMENT"})
    said = {"progress": 1, "total": 4, "message": "MESSAGE"}
    say(row, Event(EventKind.PROGRESS, said), log("LOGLINE"), progress=1, progress_total=4, progress_message="MESSAGE")
    rows.cancel(row, Cause.ADMIN, "too dear", actor=Actor("root", "192.0.2.1"))
    rows.cancel(row, Cause.CLIENT, "me too")
    result, error = {"content": [{"type": "text", "text": "PARTIAL"}]}, {"message": "ERRORTEXT"}
    transitions.finish(row.pk, Status.CANCELLED, worker=worker, stage=Stage.INTERRUPT, result=result, error=error)
    TaskResult.objects.create(task_id=str(row.pk), status="FAILURE", worker="w1@host", traceback="TRACEBACK")
    return row


def test_the_page_of_a_tool_that_failed_under_debug_links_to_its_traceback(log_in, worker):
    row = rows.running(worker)
    error = {"cause": "tool", "type": "ValueError", "message": "no", "traceback": 'File "<b>FRAME</b>"\nValueError: no'}
    transitions.finish(row.pk, Status.FAILED, worker=worker, error=error)
    TaskResult.objects.create(task_id=str(row.pk), status="FAILURE", traceback="CELERYS")
    shown = page(log_in(SEE, SEE_PAYLOAD), row)
    assert '<a href="#mcp-traceback">Traceback</a>' in shown
    [section] = re.findall(r'<section class="module" id="mcp-traceback">(.*?)</section>', shown, re.DOTALL)
    assert "File &quot;&lt;b&gt;FRAME&lt;/b&gt;&quot;\nValueError: no" in section
    assert shown.count("FRAME") == 1
    withheld = page(log_in(SEE, name="other"), row)
    assert "FRAME" not in withheld
    assert "#mcp-traceback" not in withheld


def test_the_page_of_a_tool_that_failed_links_to_the_traceback_that_celery_keeps(log_in, payload_row):
    assert '<a href="#mcp-celery">Traceback</a>' in page(log_in(SEE, SEE_PAYLOAD), payload_row)
    assert '<a href="#mcp-celery">Traceback</a>' not in page(log_in(SEE, name="other"), payload_row)


SECRETS = ("ARGUMENT", "MESSAGE", "LOGLINE", "PARTIAL", "ERRORTEXT", "TRACEBACK")


def test_the_page_tells_who_called_what_and_how_it_ended(log_in, payload_row):
    shown = page(log_in(SEE, SEE_PAYLOAD), payload_row)
    for part in (*SECRETS, "dig", "Ada", "cancelled", "1 of 4", "FAILURE", "w1@host", payload_row.queue):
        assert part in shown
    assert '<progress max="4.0" value="1.0">' in shown


def test_the_page_does_without_celerys_row_on_a_site_that_keeps_none(log_in, payload_row, settings):
    browser = log_in(SEE, SEE_PAYLOAD)
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_celery_results"]
    shown = page(browser, payload_row)
    assert "ARGUMENT" in shown
    assert "mcp-celery" not in shown


def test_what_its_caller_gave_it_is_told_beside_the_tools_time_limit(log_in):
    browser, said = log_in(SEE), "Its caller&#x27;s, with the wait for a worker"
    assert re.search(rf"{said}.*?12.5 s", page(browser, rows.queued(caller_limit=12.5)), re.DOTALL)
    assert said not in page(browser, rows.queued())


def test_the_cancellation_is_a_story_of_every_attempt(log_in, payload_row):
    response = log_in(SEE).get(f"/admin/mcp_app/request/{payload_row.pk}/change/")
    first, second = response.context["tellings"]
    for part in ("root (192.0.2.1)", "administrator", "“too dear”", "running", "interrupt"):
        assert part in first.words
    assert (first.outcome, second.outcome) == ("accepted", "duplicate")
    assert "“me too”" in second.words


@pytest.mark.fault("G12")
@pytest.mark.parametrize("part", ["change", "state"])
def test_without_the_permission_for_payload_nothing_of_it_is_told(log_in, payload_row, part):
    shown = page(log_in(SEE, CANCEL), payload_row, part)
    assert "too dear" in shown
    assert "Hidden" in shown
    assert not [secret for secret in SECRETS if secret in shown]


def test_what_moves_is_told_anew_without_the_rest_of_the_page(log_in, worker):
    browser, row = log_in(SEE, SEE_PAYLOAD), rows.running(worker)
    before = page(browser, row, "state")
    say(row, log("dug deeper"), progress=0.5, progress_total=1.0)
    after = page(browser, row, "state")
    assert "dug deeper" not in before
    assert "dug deeper" in after
    assert "data-open" in after
    assert "<html" not in after
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=rows.RESULT)
    assert "data-open" not in page(browser, row, "state")


@pytest.mark.fault("G7")
@pytest.mark.parametrize("text", [hostile.SCRIPT, hostile.REVERSED, hostile.CONTROL])
def test_hostile_text_stays_text(log_in, worker, text):
    client = {"name": text, "version": text}
    row = rows.running(worker, arguments={text: text}, client_info=client, jsonrpc_id=text, tool="dig")
    say(row, log(text), Event(EventKind.PROGRESS, {"progress": 1, "message": text}), progress_message=text)
    rows.cancel(row, reason=text, actor=Actor(text, text))
    transitions.finish(row.pk, Status.CANCELLED, worker=worker, error={"message": text})
    browser = log_in(SEE, SEE_PAYLOAD)
    for shown in (page(browser, row), browser.get("/admin/mcp_app/cancelledrequest/").content.decode()):
        assert "alert(1)</script>" not in shown
        assert not [sign for sign in "\u202e\x07\x1b" if sign in shown]


@pytest.mark.fault("G7")
def test_no_link_is_made_of_what_a_tool_returned(log_in, worker):
    row = rows.running(worker)
    linked = {"content": [{"type": "resource_link", "uri": hostile.LINK, "name": "click"}]}
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result=linked)
    shown = page(log_in(SEE, SEE_PAYLOAD), row)
    assert hostile.LINK in shown
    assert f'href="{hostile.LINK}' not in shown


def test_a_megabyte_is_cut_and_the_rest_is_counted(log_in, worker):
    row = rows.running(worker, arguments={"text": hostile.LONG})
    say(row, log(hostile.LONG))
    transitions.finish(row.pk, Status.COMPLETED, worker=worker, result={"text": hostile.LONG})
    shown = page(log_in(SEE, SEE_PAYLOAD), row)
    assert len(shown) < 4 * TEXT_CHARS
    assert len(re.findall(r"\b9\d{5} more characters", shown)) == 3


def test_a_long_timeline_is_paged(log_in, worker):
    row = rows.running(worker)
    say(row, *(log(f"line {number}") for number in range(LINES)))
    browser = log_in(SEE, SEE_PAYLOAD)
    newest = browser.get(f"/admin/mcp_app/request/{row.pk}/change/").context["timeline"]
    assert [line.seq for line in newest.lines] == list(range(LINES + 2, 2, -1))
    assert (newest.remaining, newest.older) == (2, 3)
    older = browser.get(f"/admin/mcp_app/request/{row.pk}/change/?before=3").context["timeline"]
    running, queued = (line.text.text for line in older.lines)
    assert all(fact in running for fact in ("running", "4711"))
    assert queued == "queued"
    assert older.older is None


def test_the_page_leads_to_its_tool_for_those_who_may_see_tools(log_in):
    row = rows.queued()
    Tool.objects.create(name="dig", location="tests")
    link = 'href="/admin/mcp_app/tool/dig/change/"'
    assert link in page(log_in(SEE, "view_tool"), row)
    assert link not in page(log_in(SEE, name="other"), row)


@pytest.mark.parametrize("name", ["inflightrequest", "cancelledrequest"])
def test_a_request_has_one_page_whatever_list_leads_to_it(log_in, name):
    row = rows.queued()
    response = log_in(SEE).get(f"/admin/mcp_app/{name}/{row.pk}/change/")
    assert response.url == f"/admin/mcp_app/request/{row.pk}/change/"


@pytest.mark.parametrize("request_id", ["not-an-id", "00000000-0000-0000-0000-000000000000"])
def test_an_id_that_nobody_has_is_not_found(log_in, request_id):
    assert log_in(SEE).get(f"/admin/mcp_app/request/{request_id}/change/").status_code == 404


@pytest.mark.parametrize("path", ["", "{}/change/", "{}/state/", "{}/delete/", "add/"])
def test_nobody_sees_requests_without_the_permission(log_in, path):
    row = rows.queued()
    assert log_in(SEE_PAYLOAD, CANCEL).get(f"/admin/mcp_app/request/{path.format(row.pk)}").status_code == 403


@pytest.mark.parametrize("path", ["add/", "{}/delete/"])
def test_requests_are_neither_added_nor_deleted(log_in, path):
    row, root = rows.queued(), log_in(is_superuser=True)
    assert root.post(f"/admin/mcp_app/request/{path.format(row.pk)}", {"post": "yes"}).status_code == 403
    assert rows.fresh(row).status == Status.QUEUED


@pytest.mark.urls("tests.admin.backstage")
def test_an_admin_of_another_name_leads_only_to_its_own_pages(log_in):
    browser, row = log_in(SEE, CANCEL, "view_tool"), rows.queued()
    ours = f"/backstage/mcp_app/request/{row.pk}"
    listed = browser.get("/backstage/mcp_app/inflightrequest/").content.decode()
    shown = browser.get(f"{ours}/change/").content.decode()
    assert f"{ours}/change/" in listed
    assert f'action="{ours}/cancel/"' in shown
    assert f'data-url="{ours}/state/"' in shown
    assert browser.post(f"{ours}/cancel/").url == f"{ours}/change/"
    assert '"/admin/' not in listed + shown


def test_the_page_runs_scripts_from_files_only(log_in, payload_row):
    shown = page(log_in(SEE, SEE_PAYLOAD, CANCEL), payload_row)
    assert "mcp_app/live.js" in shown
    assert re.findall(r"<script(?![^>]*\ssrc=)", shown) == []
    assert re.findall(r"\s(?:style|on\w+)=", shown) == []


@pytest.mark.parametrize("events", [1, LINES])
def test_looking_at_a_request_costs_the_same_however_much_happened(log_in, worker, events):
    browser, row = log_in(SEE, SEE_PAYLOAD), rows.stopping(worker)
    say(row, *(log(f"line {number}") for number in range(events)))
    for _ in range(events):
        rows.cancel(row)
    with CaptureQueriesContext(databases.connection()) as captured:
        page(browser, row, "state")
    executed = [query["sql"] for query in captured.captured_queries]
    assert len([sql for sql in executed if "mcp_app_" in sql or "taskresult" in sql]) == 5


def test_what_was_asked_and_answered_is_told_and_withheld_like_all_payload(log_in, worker):
    row = rows.asking(worker)
    rows.answer(row, answers={"name": {"action": "accept", "content": {"name": "ANSWER"}}})
    transitions.claim(row.pk, worker=worker, pid=1)
    input_rounds.keep(row.pk, "id", "KEPT", worker=worker)
    shown = page(log_in(SEE, SEE_PAYLOAD), row)
    for part in ("asked name", "Your name?", "answered name", "ANSWER", "KEPT"):
        assert part in shown
    shown = page(log_in(SEE, name="alan"), row)
    assert "asked name" in shown
    for part in ("Your name?", "ANSWER", "KEPT"):
        assert part not in shown


def hide(kind, tool, value):
    return dict.fromkeys(value, "LEFT") if isinstance(value, dict) else "LEFT"


@pytest.mark.fault("G12")
def test_what_redaction_leaves_out_is_on_no_page_while_the_call_needs_it(log_in, worker, configure):
    configure(REDACT=f"{__name__}.hide")
    row = rows.asking(worker, arguments={"depth": "HUSH"})
    row = rows.answer(row, answers={"name": {"action": "accept", "content": {"name": "HUSH"}}})
    assert "HUSH" in str(row.unredacted)
    browser = log_in(SEE, SEE_PAYLOAD)
    shown = page(browser, row)
    assert "Redacted" in shown
    assert "answers, arguments" in shown
    assert "LEFT" in shown
    for address in ("request/", "inflightrequest/", f"request/{row.pk}/change/", f"request/{row.pk}/state/"):
        assert b"HUSH" not in browser.get(f"/admin/mcp_app/{address}").content
    for lookup in ("unredacted__contains", "unredacted__arguments__depth", "redacted"):
        response = browser.get("/admin/mcp_app/request/", {lookup: "HUSH"})
        assert response.status_code in (302, 400)


@pytest.mark.fault("A7", "A8")
def test_what_cannot_be_stopped_where_it_runs_says_so_wherever_it_is_seen(log_in, worker):
    row = rows.stopping(worker)
    browser = log_in(SEE)
    paths = [f"/admin/mcp_app/{name}/" for name in ("request", "inflightrequest", "cancelledrequest")]
    paths.append(f"/admin/mcp_app/request/{row.pk}/change/")
    assert not any(b"unstoppable here" in browser.get(path).content for path in paths)
    assert transitions.give_up(row.pk)
    assert all(b"unstoppable here" in browser.get(path).content for path in paths)
    assert b"until it ends" in browser.get(paths[-1]).content
