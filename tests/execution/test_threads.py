"""The threads pool runs the same calls as processes do."""

import re
import signal
import textwrap

import pytest

from mcp_app.execution.stopping import processes
from tests.execution import driver
from tests.execution.site import Site, Worker, begin_code, eventually
from tests.execution.stress import slots
from tests.execution.threads import ASLEEP, SLOTS, given_up

pytestmark = pytest.mark.acceptance


def test_calls_run_at_once_in_the_workers_own_process_each_with_its_own_context(threads: Site) -> None:
    slots(threads, threads.data / "guests", SLOTS)
    tell = """
        import logging
        from mcp_app.tools import current_context
        for n in range(20):
            current_context().progress(n + 1, 20, MARK)
            logging.getLogger("tests").warning(MARK)
            time.sleep(0.005)
        answer = [MARK, os.getpid(), str(current_context().request.id)]
    """
    marks = [f"call {n}" for n in range(SLOTS)]
    calls = [threads.submit("python", {"code": f"MARK = {mark!r}\n{textwrap.dedent(tell)}"}) for mark in marks]
    for mark, request_id in zip(marks, calls, strict=True):
        assert threads.ended(request_id)["result"]["structuredContent"] == [mark, threads.workers[0].pid, request_id]
        told = threads.ask(driver.events, request_id)
        progress = [data for kind, data in told if kind == "progress"]
        assert {data["message"] for data in progress} == {mark}
        assert progress[-1]["progress"] == 20
        assert {data["data"] for kind, data in told if kind == "log"} == {mark}


def test_a_thread_keeps_no_database_connection_between_calls(threads: Site) -> None:
    connect = """
        from django.db import connections
        from tests.execution import tools
        tools.wrapper = connections["default"]
        tools.wrapper.ensure_connection()
    """
    look = """
        from tests.execution import tools
        for _ in range(500):  # the connection is closed after the end of the call was stored
            if tools.wrapper.connection is not None:
                ctx.sleep(0.01)
        answer = tools.wrapper.connection is None
    """
    assert threads.call("python", {"code": textwrap.dedent(connect)})["status"] == "completed"
    assert threads.call("python", {"code": textwrap.dedent(look)})["result"]["structuredContent"] is True


def test_a_tool_that_asks_runs_again_with_its_answer(threads: Site) -> None:
    code = """
        from pydantic import BaseModel
        class Name(BaseModel):
            name: str
        answer = ctx.elicit("who", "Who?", Name).content.name
    """
    capable = {"elicitation": {"form": {}}}
    call = threads.submit("python", {"code": textwrap.dedent(code)}, client_capabilities=capable)
    assert list(threads.ask(driver.asking, call)) == ["who"]
    threads.ask(driver.answer, call, {"who": {"action": "accept", "content": {"name": "Ada"}}})
    assert threads.ended(call)["result"]["content"][0]["text"] == "Ada"


@pytest.mark.fault("G6")
def test_G6_tools_start_others_beside_one_another_and_what_was_started_ends_with_its_starter(threads: Site) -> None:
    code = """
        call = ctx.start("python", code="answer = str(ctx.request.id)")
        answer = [str(call.id), call.result().content[0].text]
    """
    starters = [threads.submit("python", {"code": textwrap.dedent(code)}) for _ in range(SLOTS // 2)]
    for request_id in starters:
        result = threads.ended(request_id)["result"]
        [child] = threads.ask(driver.children, request_id)
        assert result["structuredContent"] == [str(child["id"])] * 2
    asleep = """
        call = ctx.start("python", code=f"open({READY!r}, 'w').close()\\nctx.sleep(60)")
        call.result()
    """
    starter = begin_code(threads, asleep)
    threads.cancel(starter)
    assert threads.ended(starter)["status"] == "cancelled"
    [child] = threads.ask(driver.children, starter)
    ended = threads.ended(str(child["id"]))
    assert (ended["status"], ended["cancel_cause"]) == ("cancelled", "parent")


@pytest.mark.fault("H1")
def test_H1_a_tool_that_forks_keeps_its_transaction(threads: Site) -> None:
    code = """
        from django.db import connection, transaction
        with transaction.atomic():
            before = connection.connection
            if (pid := os.fork()) == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            answer = connection.connection is before
    """
    assert threads.call("python", {"code": textwrap.dedent(code)})["result"]["structuredContent"] is True


@pytest.mark.fault("C2")
def test_C2_a_killed_worker_loses_its_calls_and_what_they_started(site: Site) -> None:
    doomed = site.start_worker(concurrency=SLOTS, pool="threads")
    request_id = begin_code(
        site, 'open(READY, "w").close()\nctx.run([sys.executable, "-c", "import time; time.sleep(60)"])'
    )
    asleep = begin_code(site, ASLEEP.format(seconds=60), cancel_policy="kill", hard_grace=0.1)
    site.cancel(asleep)
    given_up(site, asleep)
    eventually(lambda: processes.find(request_id), "the tool's subprocess")
    doomed.stop(signal.SIGKILL)
    site.start_worker(concurrency=1)
    # No other process can know that a silent worker is dead. So the call must not be reported as cancelled.
    assert [site.ended(each, 25)["status"] for each in (request_id, asleep)] == ["lost", "lost"]
    eventually(lambda: not processes.find(request_id), "the end of the tool's subprocess")


def test_a_worker_says_how_many_tools_it_cannot_kill_and_names_some(site: Site) -> None:
    worker: Worker = site.start_worker(concurrency=1, pool="threads")
    [told] = [line for line in worker.log.read_text().splitlines() if "cannot kill" in line]
    assert re.search(r"\b\d\d tools .*'kill' \(add(, \w+){2}, …\)$", told)
