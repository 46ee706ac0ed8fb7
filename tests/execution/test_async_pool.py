"""The async pool: hundreds of coroutines wait in one process, without a thread for each."""

import textwrap

import psutil
import pytest

from mcp_app.execution.stopping import processes
from tests.execution import driver
from tests.execution.coroutines import WAITING, begin_crowd, ended
from tests.execution.site import Site, begin_code, eventually, stop
from tests.execution.test_threads import test_a_tool_that_asks_runs_again_with_its_answer as asks

pytestmark = pytest.mark.acceptance

CROWD = 200
MEGABYTE = 1_000_000


def code(text: str) -> dict[str, str]:
    return {"code": textwrap.dedent(text)}


def test_hundreds_wait_in_one_process_without_a_thread_or_a_socket_each_and_every_one_can_be_stopped(
    coroutines: Site,
) -> None:
    [worker] = coroutines.workers
    process = psutil.Process(worker.pid)
    assert coroutines.call("python_async", code("async def main(): return 1"))["status"] == "completed"
    before = process.memory_info().rss
    crowd = begin_crowd(coroutines, CROWD)
    assert not worker.children()
    assert process.num_threads() < 60
    assert process.num_fds() < 150
    assert process.memory_info().rss - before < CROWD * MEGABYTE / 4
    for request_id in crowd[:10]:
        assert coroutines.cancel(request_id) == "accepted"
        row = coroutines.ended(request_id)
        assert (row["status"], row["stage"]) == ("cancelled", "cooperative")
    assert coroutines.ask(driver.statuses, crowd[10:]) == {"running": CROWD - 10}
    coroutines.ask(driver.cancel_of_tool, "python_async")
    assert ended(coroutines, crowd[10:]) == {("cancelled", "admin"): CROWD - 10}


def test_a_crowd_past_its_time_limit_is_stopped(coroutines: Site) -> None:
    crowd = coroutines.ask(
        driver.submit_many, 40, "python_async", code("async def main(): await asyncio.sleep(120)"), time_limit=2.0
    )
    eventually(lambda: not coroutines.ask(driver.statuses, crowd).get("queued"), "that they are taken")
    assert ended(coroutines, crowd) == {("cancelled", "deadline"): 40}


def test_each_call_has_its_own_context_in_its_tasks_its_threads_and_its_log(coroutines: Site) -> None:
    tell = """
        import logging
        from mcp_app.tools import current_context
        async def tell():
            for n in range(5):
                current_context().progress(next(STEP), 100, MARK)
                logging.getLogger("tests").warning(MARK)
                await asyncio.sleep(0.01)
        async def main():
            await asyncio.gather(tell(), tell())
            return await asyncio.to_thread(lambda: [MARK, os.getpid(), str(current_context().request.id)])
    """
    marks = [f"call {n}" for n in range(5)]
    calls = [
        coroutines.submit(
            "python_async",
            {"code": f"import itertools\nSTEP = itertools.count(1)\nMARK = {mark!r}\n{textwrap.dedent(tell)}"},
        )
        for mark in marks
    ]
    for mark, request_id in zip(marks, calls, strict=True):
        row = coroutines.ended(request_id)
        assert row["result"]["structuredContent"] == [mark, coroutines.workers[0].pid, request_id]
        told = coroutines.ask(driver.events, request_id)
        assert {data["message"] for kind, data in told if kind == "progress"} == {mark}
        assert {data["data"] for kind, data in told if kind == "log"} == {mark}


def test_a_blocking_tool_has_a_thread_beside_them_and_asks_as_anywhere(coroutines: Site) -> None:
    waiting = begin_code(coroutines, WAITING, "python_async")
    asks(coroutines)
    assert coroutines.text("pid") == str(coroutines.workers[0].pid)
    coroutines.cancel(waiting)
    assert coroutines.ended(waiting)["partial_result"]["content"][0]["text"] == "cleaned"


def test_the_task_of_a_coroutine_ends_for_celery_as_any_other(coroutines: Site) -> None:
    call = coroutines.call("python_async", code("async def main(): return 1"))
    assert eventually(lambda: coroutines.task_ends(str(call["id"]))) == ["SUCCESS"]
    failed = coroutines.call("python_async", code("async def main(): raise ValueError"))
    assert eventually(lambda: coroutines.ask(driver.celery_status, str(failed["id"]))) == "FAILURE"
    assert coroutines.ask(driver.celery_status, str(call["id"])) is None


def test_a_coroutine_that_asks_runs_again_with_its_answer(coroutines: Site) -> None:
    asking = """
        from pydantic import BaseModel
        class Name(BaseModel):
            name: str
        async def main():
            return ctx.elicit("who", "Who?", Name).content.name
    """
    call = coroutines.submit("python_async", code(asking), client_capabilities={"elicitation": {"form": {}}})
    assert list(coroutines.ask(driver.asking, call)) == ["who"]
    coroutines.ask(driver.answer, call, {"who": {"action": "accept", "content": {"name": "Ada"}}})
    assert coroutines.ended(call)["result"]["content"][0]["text"] == "Ada"


def test_what_a_tool_leaves_to_its_loop_ends_with_its_call(coroutines: Site) -> None:
    over = coroutines.data / "over"
    leaving = f"""
        async def later():
            await asyncio.sleep(0.5)
            open({str(over)!r}, "w").close()
        async def main():
            asyncio.create_task(later())
            await asyncio.sleep(0)
            return "left"
    """
    for _ in range(2):
        assert coroutines.call("python_async", code(leaving))["status"] == "completed"
    assert coroutines.call("python_async", code("async def main(): await asyncio.sleep(0.8)"))["status"] == "completed"
    assert not over.exists()


def test_a_coroutine_that_leaves_the_interpreter_fails_alone(coroutines: Site) -> None:
    waiting = begin_code(coroutines, WAITING, "python_async")
    assert coroutines.call("python_async", code("async def main(): sys.exit(3)"))["status"] == "failed"
    assert coroutines.call("python_async", code("async def main(): return 1"))["status"] == "completed"
    assert coroutines.ask(driver.row, waiting)["status"] == "running"
    coroutines.cancel(waiting)
    assert coroutines.ended(waiting)["status"] == "cancelled"


def test_a_program_that_asyncio_started_dies_with_its_call(coroutines: Site) -> None:
    running = """
        async def main():
            program = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=subprocess.PIPE)
            open(READY, "w").close()
            await program.wait()
    """
    request_id = begin_code(coroutines, running, "python_async")
    assert processes.find(request_id)
    coroutines.cancel(request_id)
    assert coroutines.ended(request_id)["status"] == "cancelled"
    assert not processes.find(request_id)


def test_a_call_is_not_stopped_before_its_threads_are(coroutines: Site) -> None:
    over = coroutines.data / "thread-over"
    threaded = f"""
        def work():
            open(READY, "w").close()
            time.sleep(0.8)
            open({str(over)!r}, "w").close()
        async def main():
            await asyncio.to_thread(work)
    """
    assert stop(coroutines, threaded, "python_async", hard_grace=20.0)["status"] == "cancelled"
    assert over.exists()


def test_no_more_calls_run_than_there_are_slots_and_the_next_begins_when_one_ends(site: Site) -> None:
    site.start_worker(concurrency=2, pool="async")
    first, second = (begin_code(site, WAITING, "python_async") for _ in range(2))
    third, fourth = site.submit("pid"), site.submit("python_async", code("async def main(): return 4"))
    assert site.ask(driver.statuses, [third, fourth]) == {"queued": 2}
    site.cancel(first)
    assert site.ended(third)["status"] == "completed"
    assert site.ended(fourth)["status"] == "completed"
    assert site.ask(driver.row, second)["status"] == "running"
