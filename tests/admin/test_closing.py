"""Users with permission see and close sessions and listen streams. A session's calls are cancelled in their name."""

import re
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.sessions import sessions
from mcp_app.models import Cancellation, ChangeVersion, ListenStream, Session
from mcp_app.states import Cause, Outcome, ProcessRole, Status
from tests.admin import hostile
from tests.admin.conftest import CANCEL, SEE, admin_messages
from tests.admin.pages import words
from tests.support import rows

pytestmark = pytest.mark.django_db(databases="__all__")

SESSIONS, STREAMS = "/admin/mcp_app/session/", "/admin/mcp_app/listenstream/"
RIGHTS = {
    SESSIONS: ("view_session", "close_session"),
    STREAMS: ("view_listenstream", "close_listenstream"),
}


@pytest.fixture
def session():
    info = {"name": "old editor", "version": "1.2"}
    return sessions.begin(
        rows.OWNER, protocol_version="2025-11-25", client_info=info, client_capabilities={}, subjects=[]
    )


@pytest.fixture
def server():
    identity = Identity(ProcessRole.SERVER)
    processes.beat(identity)
    return identity


@pytest.fixture
def stream(server):
    return ListenStream.objects.create(
        server=server.boot_id, principal_label="Ada", client_name="editor 3", protocol_version="2026-07-28",
        filter={"toolsListChanged": True, "resourceSubscriptions": ["notes://one"], "tasks": 2},
    )  # fmt: skip


@pytest.fixture
def keeper(log_in):
    return log_in(*RIGHTS[SESSIONS], *RIGHTS[STREAMS], name="keeper")


def in_session(session, **changes):
    return rows.queued(session=session.pk, protocol_version="2025-11-25", **changes)


def test_sessions_tell_who_is_connected_and_what_they_do(keeper, session, server):
    in_session(session)
    Session.objects.update(stream=uuid4(), stream_server=server.boot_id, subscriptions=["notes://one"])
    shown = words(keeper.get(SESSIONS))
    for part in ("Ada", "old editor 1.2", "2025-11-25", f"{server.hostname}, process {server.pid}", "1 session"):
        assert part in shown
    row = keeper.get(SESSIONS).context["cl"].result_list[0]
    assert (row.calls, len(row.subscriptions)) == (1, 1)
    page = words(keeper.get(f"{SESSIONS}{session.pk}/change/"))
    assert "notes://one" in page
    assert "Close…" in page


def test_streams_tell_who_listens_to_what_and_where(keeper, stream, server):
    shown = words(keeper.get(STREAMS))
    for part in ("Ada", "editor 3", "2026-07-28", "list of tools, 1 resources, 2 tasks", f"process {server.pid}"):
        assert part in shown
    assert "notes://one" in words(keeper.get(f"{STREAMS}{stream.pk}/change/"))
    processes.stop(server)
    assert "stopped" in words(keeper.get(STREAMS))


def test_closing_a_session_cancels_its_calls_in_the_administrators_name(keeper, session, worker):
    waits, runs = in_session(session), in_session(session)
    runs = rows.transitions.claim(runs.pk, worker=worker, pid=1)
    other = rows.queued()
    page = keeper.get(f"{SESSIONS}{session.pk}/close/")
    assert "Close 1 session" in page.content.decode()
    assert Session.objects.count() == 1
    response = keeper.post(f"{SESSIONS}close/", {"request_ids": str(session.pk), "reason": "it floods us"})
    [told] = admin_messages(response)
    assert re.search(r"closed: 1\b.*cancelled: 2\b", told)
    assert not Session.objects.exists()
    assert rows.fresh(waits).status == Status.CANCELLED
    for row in (waits, runs):
        [attempt] = rows.audited(row)
        assert (attempt.cause, attempt.actor, attempt.actor_address) == (Cause.ADMIN, "keeper", "127.0.0.1")
        assert (attempt.outcome, attempt.reason) == (Outcome.ACCEPTED, "it floods us")
        assert attempt.part_of == f"session {session.pk}"
    assert rows.audited(other) == []
    assert sessions.find(session.pk, rows.OWNER) is None
    assert "Closed" in LogEntry.objects.get().change_message


def test_closing_a_stream_asks_the_process_that_holds_it(keeper, stream, server):
    response = keeper.post(f"{STREAMS}close/", {"request_ids": f"{stream.pk},{uuid4()},nonsense"})
    [told] = admin_messages(response)
    assert "closed: 1." in told
    row = ListenStream.objects.get()
    assert row.close_requested_by == "keeper"
    assert ChangeVersion.objects.get(pk=f"listening/{server.boot_id.hex}").version == 1
    assert "asked by keeper" in words(keeper.get(STREAMS))
    [told] = admin_messages(keeper.post(f"{STREAMS}close/", {"request_ids": str(stream.pk)}))
    assert "closed: 0." in told
    assert LogEntry.objects.count() == 1


def test_those_that_are_ticked_are_asked_for_first(keeper, session, stream):
    for address, row in ((SESSIONS, session), (STREAMS, stream)):
        page = keeper.post(address, {"action": "close_selected", "index": "0", "_selected_action": str(row.pk)})
        assert f'name="request_ids" value="{row.pk}"' in page.content.decode()
    assert Session.objects.count() == 1
    assert ListenStream.objects.get().close_requested_at is None


@pytest.mark.parametrize("address", RIGHTS)
def test_nobody_sees_or_closes_without_the_permission(log_in, session, stream, address):
    row = {SESSIONS: session, STREAMS: stream}[address]
    see, close = RIGHTS[address]
    blind, viewer = log_in(SEE, CANCEL, close), log_in(see, name="viewer")
    for path in ("", f"{row.pk}/change/", f"{row.pk}/close/"):
        assert blind.get(f"{address}{path}").status_code == 403
    assert viewer.get(address).status_code == 200
    assert "Close…" not in words(viewer.get(f"{address}{row.pk}/change/"))
    for browser in (blind, viewer):
        assert browser.get(f"{address}{row.pk}/close/").status_code == 403
        assert browser.post(f"{address}close/", {"request_ids": str(row.pk)}).status_code == 403
    assert Session.objects.count() == 1
    assert ListenStream.objects.get().close_requested_at is None
    assert not Cancellation.objects.exists()


def test_who_may_not_close_a_session_leaves_an_attempt_on_each_of_its_calls(log_in, session):
    row = in_session(session)
    viewer = log_in("view_session", CANCEL)
    posted = {"request_ids": str(session.pk), "reason": "mine now"}
    assert viewer.post(f"{SESSIONS}close/", posted).status_code == 403
    [attempt] = rows.audited(row)
    assert (attempt.outcome, attempt.actor, attempt.reason) == (Outcome.DENIED, "grace", "mine now")
    assert rows.fresh(row).status == Status.QUEUED


@pytest.mark.parametrize("address", RIGHTS)
def test_nothing_is_closed_by_a_get_added_changed_or_deleted(log_in, session, stream, address):
    root, row = log_in(is_superuser=True), {SESSIONS: session, STREAMS: stream}[address]
    assert root.get(f"{address}close/").status_code == 405
    assert root.get(f"{address}{uuid4()}/close/").status_code == 302
    for path in ("add/", f"{row.pk}/delete/", f"{row.pk}/change/"):
        assert root.post(f"{address}{path}", {"post": "yes"}).status_code == 403
    assert Session.objects.count() == ListenStream.objects.count() == 1


@pytest.mark.fault("G7")
def test_hostile_texts_stay_texts(keeper, stream):
    ListenStream.objects.update(principal_label=hostile.SCRIPT, client_name=hostile.REVERSED)
    for path in ("", f"{stream.pk}/change/", f"{stream.pk}/close/"):
        shown = keeper.get(f"{STREAMS}{path}").content.decode()
        assert "alert(1)</script>" not in shown
        assert "\u202e" not in shown


@pytest.mark.parametrize("number", [1, 30])
def test_a_list_costs_the_same_however_many_are_connected(keeper, number):
    servers = [Identity(ProcessRole.SERVER) for _ in range(3)]
    for each in servers:
        processes.beat(each)
    held = {"principal_label": "Ada", "protocol_version": "2025-11-25"}
    for index in range(number):
        server = servers[index % 3].boot_id
        Session.objects.create(stream_server=server, **held)
        ListenStream.objects.create(server=server, **held)
    for address in RIGHTS:
        with CaptureQueriesContext(databases.connection()) as captured:
            assert len(keeper.get(address).context["cl"].result_list) == number
        # the count, the page, the heartbeats of the processes
        assert len([query for query in captured.captured_queries if "mcp_app_" in query["sql"]]) <= 3


def live(browser, address, query=""):
    """Return the part of a list that is updated, and the number of statements for it."""
    with CaptureQueriesContext(databases.connection()) as asked:
        response = browser.get(f"{address}live/?{query}")
    return response, sum("mcp_app_" in query["sql"] for query in asked)


def test_the_lists_are_asked_for_as_they_are_now(keeper, session, stream):
    for address, row in ((SESSIONS, session), (STREAMS, stream)):
        page = keeper.get(address).content.decode()
        assert f'data-url="{address}live/"' in page
        assert "mcp_app/live.js" in page
        response, statements = live(keeper, address, f"shown={row.pk},{uuid4()},x")
        assert f'id="mcp-row-{row.pk}"' in response.content.decode()
        assert "<html" not in response.content.decode()
        assert statements <= 4
        row.delete()
        assert 'id="mcp-row-none"' in live(keeper, address, f"shown={row.pk}")[0].content.decode()


def test_more_connections_cost_no_more_statements(keeper, session, stream, server):
    counted = {address: live(keeper, address)[1] for address in (SESSIONS, STREAMS)}
    for number in range(60):
        Session.objects.create(principal_label=f"caller {number}", protocol_version="2025-11-25")
        ListenStream.objects.create(server=server.boot_id, principal_label="x", protocol_version="2026-07-28")
    assert {address: live(keeper, address)[1] for address in counted} == counted


def test_who_may_not_see_connections_is_told_nothing_of_them(log_in, client):
    stranger = log_in(SEE, name="stranger")
    for address in (SESSIONS, STREAMS):
        assert stranger.get(f"{address}live/").status_code == 403
        assert client.get(f"{address}live/").status_code == 302
