"""Calls in threads are stopped like calls in processes. An unstoppable call is reported as such, never as stopped."""

import os
import sys

import pytest

from mcp_app.execution.stopping import processes
from tests.execution import driver
from tests.execution.programs import STUBBORN, SWALLOWING_COROUTINE
from tests.execution.site import Site, begin_code, eventually, stop
from tests.execution.stress import slots, strain
from tests.execution.threads import ASLEEP, SLOTS, SPINNING, given_up

pytestmark = pytest.mark.acceptance

SHIELDED = """
    from django.db import connection
    with ctx.shield():
        open(READY, "w").close()
        until = time.monotonic() + 30
        while not ctx.is_cancelled and time.monotonic() < until:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        for _ in range(100):
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        ctx.partial_result = "whole"
    time.sleep(0)
"""
CHILD = 'subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)'


def stages(site: Site, request_id: str) -> list[str]:
    return [data["stage"] for kind, data in site.ask(driver.events, request_id) if kind == "stage"]


@pytest.mark.fault("A6")
def test_A6_a_tool_in_python_code_is_interrupted_and_cleans_up(threads: Site) -> None:
    ended = stop(threads, SPINNING, hard_grace=20.0)
    assert (ended["status"], ended["stage"]) == ("cancelled", "interrupt")
    assert ended["partial_result"]["content"][0]["text"] == "cleaned"


@pytest.mark.fault("A5")
@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("python", 'open(READY, "w").close()\nctx.sleep(60)'),
        ("python_async", 'async def main():\n    open(READY, "w").close()\n    await asyncio.sleep(60)'),
    ],
    ids=["sleeping by its context", "a coroutine"],
)
def test_A5_a_tool_that_waits_by_its_context_or_as_a_coroutine_is_told_at_once(
    threads: Site, tool: str, code: str
) -> None:
    ended = stop(threads, code, tool, cooperative_grace=30.0)
    assert (ended["status"], ended["stage"]) == ("cancelled", "cooperative")


def test_a_coroutine_that_swallows_its_cancellation_is_interrupted(threads: Site) -> None:
    ended = stop(threads, SWALLOWING_COROUTINE, "python_async", hard_grace=20.0)
    assert (ended["status"], ended["stage"]) == ("cancelled", "interrupt")


def test_a_call_past_its_time_limit_is_stopped(threads: Site) -> None:
    ended = threads.call("python", {"code": "while True: time.sleep(0.01)"}, time_limit=0.2, hard_grace=20.0)
    assert (ended["status"], ended["cancel_cause"], ended["stage"]) == ("cancelled", "deadline", "interrupt")


def test_a_shield_is_not_interrupted(threads: Site) -> None:
    ended = stop(threads, SHIELDED)
    assert ended["partial_result"]["content"][0]["text"] == "whole"


@pytest.mark.fault("H1")
def test_H1_a_query_is_cancelled_and_the_next_call_has_a_clean_connection(threads: Site) -> None:
    for _ in range(2):
        beside = [begin_code(threads, SHIELDED) for _ in range(2)]
        request_id = threads.begin("slow_query")
        threads.cancel(request_id)
        assert threads.ended(request_id)["status"] == "cancelled"
        for each in beside:
            assert threads.ask(driver.row, each)["cancel_requested_at"] is None
            threads.cancel(each)
            assert threads.ended(each)["partial_result"]["content"][0]["text"] == "whole"
        assert threads.text("orm_probe").endswith("True 0")
    request_id = threads.begin("orm_loop")
    threads.cancel(request_id)
    assert threads.ended(request_id)["status"] == "cancelled"
    assert [threads.text("orm_probe")[-6:] for _ in range(SLOTS)] == ["True 0"] * SLOTS


@pytest.mark.fault("A8")
@pytest.mark.parametrize("policy", ["interrupt", "kill"])
def test_A8_what_sleeps_in_c_is_called_unstoppable_until_it_ends(threads: Site, policy: str) -> None:
    request_id = begin_code(threads, ASLEEP.format(seconds=3), cancel_policy=policy, hard_grace=0.3)
    assert threads.cancel(request_id) == "accepted"
    given_up(threads, request_id)
    [attempt] = threads.ask(driver.attempts, request_id)
    assert attempt["settled_at"] is None
    assert threads.text("pid") == str(threads.workers[0].pid)
    ended = threads.ended(request_id)
    assert (ended["status"], ended["stage"], ended["error"]) == ("cancelled", "interrupt", None)
    assert stages(threads, request_id) == ["cooperative", "unstoppable"]
    [attempt] = threads.ask(driver.attempts, request_id)
    assert (attempt["outcome"], attempt["status_after"]) == ("accepted", "cancelled")
    assert attempt["latency_ms"] > 1000


@pytest.mark.fault("A7")
def test_A7_a_tool_that_swallows_everything_is_unstoppable_and_its_result_is_refused(threads: Site) -> None:
    code = """
        until = time.monotonic() + 2
        open(READY, "w").close()
        while time.monotonic() < until:
            try:
                time.sleep(0.05)
            except BaseException:
                pass
        answer = "whole"
    """
    request_id = begin_code(threads, code, cancel_policy="kill", hard_grace=0.3)
    threads.cancel(request_id)
    given_up(threads, request_id)
    ended = threads.ended(request_id)
    assert (ended["status"], ended["stage"], ended["result"]) == ("cancelled", "interrupt", None)
    assert ended["partial_result"]["content"][0]["text"] == "whole"


def test_a_tool_that_must_not_be_cut_is_waited_for_and_not_called_unstoppable(threads: Site) -> None:
    request_id = begin_code(threads, ASLEEP.format(seconds=1), cancel_policy="cooperative", hard_grace=0.1)
    threads.cancel(request_id)
    assert threads.ended(request_id)["status"] == "completed"
    assert stages(threads, request_id) == ["cooperative"]


@pytest.mark.fault("A9")
@pytest.mark.skipif(sys.platform != "linux", reason="threads' children and markers are read from /proc")
def test_A9_what_a_call_started_is_killed_and_what_others_started_is_not(threads: Site) -> None:
    code = f'ctx.run([sys.executable, "-c", {STUBBORN!r}], on_line=lambda line: open(READY, "w").close())'
    other_run, other_plain = (
        begin_code(threads, code),
        begin_code(threads, f'{CHILD}\nopen(READY, "w").close()\nctx.sleep(60)'),
    )
    children = set(processes.descendants(threads.workers[0].pid))
    ended = stop(threads, code, cancel_policy="kill")
    assert ended["status"] == "cancelled"
    assert ended["partial_result"]["content"][0]["text"] == "half\n"
    eventually(lambda: not processes.find(ended["id"]), "the end of what was started")
    waits = f'child = {CHILD}\nopen(READY, "w").close()\nchild.wait()'
    ended = stop(threads, waits, cancel_policy="kill", hard_grace=1.0)
    assert (ended["status"], ended["stage"]) == ("cancelled", "kill")
    assert stages(threads, str(ended["id"])) == ["cooperative", "kill"]
    assert len(processes.find(other_run)) == 2
    assert all(child.is_running() for child in children)
    for request_id in (other_run, other_plain):
        threads.cancel(request_id)
        assert threads.ended(request_id)["status"] == "cancelled"
    eventually(lambda: not processes.descendants(threads.workers[0].pid), "that nothing is left")


@pytest.mark.fault("A6")
def test_short_calls_cancelled_at_random_harm_nobody_and_no_slot(threads: Site) -> None:
    assert_nobody_is_harmed(threads, 150)


@pytest.mark.fault("A6")
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_thousands_of_short_calls_cancelled_at_random_harm_nobody(threads: Site) -> None:
    assert_nobody_is_harmed(threads, 2000)


def assert_nobody_is_harmed(site: Site, calls: int) -> None:
    report = site.ask(strain, str(site.data), calls, calls)  # a seed of its own, because it names the calls
    del report["seconds"], report["statuses"], report["stages"]
    assert {name: found for name, found in report.items() if found} == {}
    slots(site, site.data / f"guests-{calls}", SLOTS)


def many_waiting(site: Site, calls: int) -> None:
    worker = site.start_worker(concurrency=calls, pool="threads")
    code = "async def main():\n    await asyncio.sleep(600)"
    waiting = [site.submit("python_async", {"code": code}) for _ in range(calls)]
    for request_id in waiting:
        site.ask(driver.running, request_id, 60)
    assert len(os.listdir(f"/proc/{worker.pid}/task")) >= calls
    for request_id in waiting:
        site.cancel(request_id)
    ended = [site.ended(request_id, 60) for request_id in waiting]
    assert {row["status"] for row in ended} == {"cancelled"}
    assert site.text("pid") == str(worker.pid)


@pytest.mark.fault("A5")
def test_many_waiting_coroutines_are_each_cancelled(site: Site) -> None:
    many_waiting(site, 40)


@pytest.mark.fault("A5")
@pytest.mark.nightly
def test_two_hundred_waiting_coroutines_are_each_cancelled(site: Site) -> None:
    many_waiting(site, 200)
