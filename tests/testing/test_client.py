"""The client for authors' tests: the real pipeline in the test's process, on the test's database."""

import signal
import threading
import time

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import TestCase

from mcp_app.lifecycle.requests.observation import MAX_EVENTS
from mcp_app.models import Cancellation, Request, RequestEvent
from mcp_app.states import Cause, Stage, Status
from mcp_app.testing.answers import UnansweredError
from mcp_app.testing.client import Client
from mcp_app.testing.outcomes import LogLine, MCPError, Progress
from mcp_app.testing.watcher import InProcessWatcher
from mcp_app.tools import tool


def test_a_call_is_checked_run_stored_and_answered(mcp_client):
    made = mcp_client.call("add", a=1, b=2)
    assert (made.text, made.structured, made.is_error) == ("3", 3, False)
    assert (made.request.status, made.request.arguments) == (Status.COMPLETED, {"a": 1, "b": 2})
    assert mcp_client.call("add", {"a": 2}, b=2).text == "4"


def test_arguments_that_do_not_fit_are_the_model_s_to_mend(mcp_client):
    refused = mcp_client.call("add", a="one", b=2)
    assert refused.is_error
    assert "a" in refused.text
    assert not Request.objects.exists()


def test_an_unknown_tool_is_an_error_of_the_protocol(mcp_client):
    with pytest.raises(MCPError) as refused:
        mcp_client.call("no_such_tool")
    assert refused.value.code == -32602
    assert "Unknown tool: no_such_tool" in refused.value.message


@pytest.mark.django_db(databases="__all__")
def test_it_calls_at_the_endpoint_that_it_is_told(settings):
    settings.MCP = {**settings.MCP, "ENDPOINTS": {"public": {"PATH": "/mcp/public"}, "staff": {"PATH": "/mcp/staff"}}}
    tool(name="stock", endpoints=["staff"])(lambda: "much")
    with Client() as client:
        assert (client.endpoint, client.tools()) == ("public", [])
        client.endpoint = "staff"
        assert [each.name for each in client.tools()] == ["stock"]
        assert client.call("stock").request.endpoint == "staff"


def test_a_tool_sees_the_test_s_rows_and_tells_as_it_goes(mcp_client):
    Group.objects.create(name="before")
    made = mcp_client.call("make_groups", names=["a", "b"])
    assert made.structured == ["a", "b", "before"]
    assert made.progress == [Progress(1, 2, "a"), Progress(2, 2, "b")]
    assert made.log == [LogLine("info", "2 groups were made", "tests.testing.mcp_tools")]


def test_all_that_a_tool_told_is_heard_however_much(mcp_client, configure):
    configure(EVENT_RATE=1e6, EVENT_BURST=1_000_000)
    count = 2 * MAX_EVENTS + 1
    made = mcp_client.call("make_groups", names=[f"{number}" for number in range(count)])
    assert [each.progress for each in made.progress] == list(range(1, count + 1))
    assert len(made.structured) == count


def test_a_tool_s_own_rollback_takes_its_rows_and_not_what_it_told(mcp_client):
    failed = mcp_client.call("make_groups", names=["a", ""])
    assert (failed.is_error, failed.text) == (True, "a group has a name")
    assert not Group.objects.exists()
    assert failed.progress == [Progress(1, 2, "a")]
    assert RequestEvent.objects.filter(request=failed.request, kind="progress").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_test_that_commits_is_served_as_well(mcp_client):
    assert mcp_client.call("make_groups", names=["a"]).text
    assert Group.objects.get().name == "a"


def test_what_no_author_meant_is_raised_in_the_test(mcp_client):
    with pytest.raises(ZeroDivisionError):
        mcp_client.call("broken")
    mcp_client.raise_request_exception = False
    told = mcp_client.call("broken")
    assert told.is_error
    assert "of no use" not in told.text


def test_permissions_and_scopes_are_honoured(mcp_client):
    user = User.objects.create_user("ann")
    mcp_client.force_login(user, scopes=["users"])
    assert "count_users" not in {tool.name for tool in mcp_client.tools()}
    user.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert "count_users" in {tool.name for tool in mcp_client.tools()}
    assert mcp_client.call("count_users").text == "ann may"
    mcp_client.force_login(user, scopes=[])
    with pytest.raises(MCPError) as refused:
        mcp_client.call("count_users")
    assert refused.value.code == 403
    mcp_client.logout()
    with pytest.raises(MCPError, match="Unknown tool"):
        mcp_client.call("count_users")


@pytest.mark.parametrize("question", ["order", "How many?"])
def test_a_question_is_answered_and_the_tool_replayed(mcp_client, tools, question):
    mcp_client.answer(question, {"quantity": 3})
    made = mcp_client.call("order")
    assert (made.text, tools.happened) == ("17: 3", ["once"])
    assert made.asked["order"]["params"]["message"] == "How many?"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_question_may_be_declined(mcp_client, action):
    mcp_client.answer("order", action=action)
    assert mcp_client.call("order").text == f"17: {action}"


def test_an_answer_that_does_not_fit_is_asked_for_again(mcp_client):
    mcp_client.answer("order", {"quantity": 30})
    mcp_client.answer("order", lambda asked: {"quantity": 3 if "quantity: " in asked["message"] else 4})
    assert mcp_client.call("order").text == "17: 3"


def test_a_question_that_nobody_foresaw_fails_the_test(mcp_client):
    with pytest.raises(UnansweredError, match=r"order: How many\?"):
        mcp_client.call("order")


def test_a_client_that_cannot_be_asked_is_told_so(mcp_client):
    mcp_client.capabilities = {}
    with pytest.raises(MCPError) as refused:
        mcp_client.call("order")
    assert refused.value.code == -32021


def test_a_blocking_tool_is_interrupted(mcp_client, tools):
    before = signal.getsignal(signal.SIGUSR1)
    stopped = mcp_client.call("block", seconds=60, cancel_after=0.05)
    assert (stopped.cancelled, stopped.stage, tools.happened) == (True, Stage.INTERRUPT, ["interrupted"])
    assert "by its client" in stopped.text
    audit = Cancellation.objects.get(request_id=stopped.request.pk)
    assert (audit.cause, audit.outcome, audit.stage) == (Cause.CLIENT, "accepted", Stage.INTERRUPT)
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_call_is_cancelled_by_what_it_tells(mcp_client):
    stopped = mcp_client.call("look", cancel_when=lambda told: told.progress[-1].progress == 3)
    assert (stopped.stage, len(stopped.progress)) == (Stage.COOPERATIVE, 3)


def test_how_far_a_stop_went_is_known_though_the_watcher_had_no_turn_before_the_tool_ended(mcp_client, monkeypatch):
    monkeypatch.setattr(InProcessWatcher, "_check_calls", lambda self: None)
    stopped = mcp_client.call("look", cancel_when=lambda told: told.progress[-1].progress == 3)
    assert (stopped.cancelled, stopped.stage) == (True, Stage.COOPERATIVE)


def test_a_shield_puts_the_stop_off(mcp_client, tools):
    stopped = mcp_client.call("shielded", cancel_when=lambda told: told.progress)
    assert (stopped.cancelled, tools.happened) == (True, ["finished"])


def test_a_call_is_cancelled_in_the_middle_and_its_transaction_undone(mcp_client, tools, monkeypatch):
    monkeypatch.setattr(tools, "fetch", lambda name: mcp_client.cancel("enough") if name == "b" else None)
    stopped = mcp_client.call("make_groups", names=["a", "b", "c"])
    assert stopped.cancelled
    assert not Group.objects.exists()
    assert Cancellation.objects.get().reason == "enough"
    assert mcp_client.call("add", a=1, b=1).text == "2"


def test_a_tool_that_is_not_to_be_stopped_would_be_killed(mcp_client, tools):
    outcome = mcp_client.call("stubborn", cancel_when=lambda told: told.log)
    assert outcome.would_be_killed
    assert tools.happened == ["swallowed"]
    assert not outcome.cancelled


def test_there_is_nothing_to_cancel_before_a_call(mcp_client):
    with pytest.raises(RuntimeError, match="No call"):
        mcp_client.cancel()


def test_a_time_limit_is_kept(mcp_client, tools):
    from mcp_app.catalogue import tool_rows

    tool_rows.sync()
    tool_rows.change(["block"], time_limit=0.05)
    stopped = mcp_client.call("block", seconds=60)
    assert (stopped.cancelled, stopped.request.cancel_cause) == (True, Cause.DEADLINE)


def test_a_subprocess_is_real(mcp_client):
    made = mcp_client.call("run_program", code="print('one'); print('two')")
    assert made.text == "one\ntwo\n"
    assert [report.message for report in made.progress] == ["one", "two"]


def test_a_subprocess_ends_with_its_call(mcp_client):
    code = "import time; print('on', flush=True); time.sleep(60)"
    began_at = time.monotonic()
    stopped = mcp_client.call("run_program", code=code, cancel_when=lambda told: told.progress)
    assert stopped.cancelled
    assert time.monotonic() - began_at < 30


def test_a_tool_that_is_started_runs_at_once(mcp_client):
    made = mcp_client.call("starts")
    assert made.text == "5"
    assert Request.objects.get(parent=made.request.pk).status == Status.COMPLETED


def test_a_coroutine_uses_the_test_s_rows_as_well(mcp_client):
    assert mcp_client.call("asynchronous", name="a").text == "2"
    assert Group.objects.get().name == "a"


def test_a_coroutine_is_cancelled(mcp_client):
    stopped = mcp_client.call("asynchronous", name="a", cancel_when=lambda told: told.progress)
    assert stopped.cancelled


def test_no_thread_is_left_but_the_watcher(mcp_client):
    mcp_client.call("asynchronous", name="a")
    before = set(threading.enumerate())
    mcp_client.call("asynchronous", name="b")
    for thread in set(threading.enumerate()) - before:
        thread.join(10)  # it may still be ending
    assert set(threading.enumerate()) <= before


def test_what_a_cancelled_call_started_is_cancelled_with_it(mcp_client, tools, monkeypatch):
    monkeypatch.setattr(tools, "fetch", lambda name: mcp_client.cancel())
    stopped = mcp_client.call("starts_groups", names=["a", "b"])
    assert stopped.cancelled
    started = Request.objects.get(parent=stopped.request.pk)
    assert (started.status, started.cancel_cause) == (Status.CANCELLED, Cause.PARENT)
    assert not Group.objects.exists()


def test_resources_prompts_and_completions(mcp_client):
    assert [resource.uri for resource in mcp_client.resources()] == ["shop://greeting"]
    assert mcp_client.read("shop://greeting").contents[0].text == "hello"
    with pytest.raises(MCPError, match="not found"):
        mcp_client.read("shop://other")
    assert [prompt.name for prompt in mcp_client.prompts()] == ["welcome"]
    assert mcp_client.prompt("welcome", name="Ann").messages[0].content.text == "Welcome, Ann!"
    assert mcp_client.complete("welcome", "name", "an") == ["ann", "anna"]


class ByDjangoTest(TestCase):
    """Without pytest's fixtures."""

    databases = "__all__"

    def test_the_client_is_a_context_manager(self):
        with Client() as client:
            assert client.call("add", a=1, b=2).text == "3"
