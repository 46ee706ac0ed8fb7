"""State that a call leaves in its process does not harm the next call there."""

import textwrap

import pytest

from mcp_app.execution.stopping.processes import MARKER
from tests.execution import driver
from tests.execution.site import eventually, stop
from tests.support.site.services import IS_POSTGRESQL

SLEEPER = """
    open(READY, "w").close()
    time.sleep(30)
"""


@pytest.mark.parametrize(
    "code",
    [
        "signal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "signal.signal(signal.SIGUSR2, signal.SIG_DFL)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})",
    ],
)
def test_a_tool_that_took_the_interrupts_signal_does_not_keep_it(one_slot, code):
    assert one_slot.call("python", {"code": code})["status"] == "completed"
    assert stop(one_slot, SLEEPER)["stage"] == "interrupt"


def test_a_transaction_left_open_is_not_the_next_calls(one_slot):
    left = "from django.db import transaction\ntransaction.atomic().__enter__()"
    assert one_slot.call("python", {"code": left})["status"] == "completed"
    write = "from tests.everything.models import LockedRow\nLockedRow.objects.create(pk=77)"
    assert one_slot.call("python", {"code": write})["status"] == "completed"
    assert one_slot.ask(driver.sql, "default", "SELECT count(*) FROM everything_lockedrow WHERE id = 77")[0][0] == 1
    one_slot.ask(driver.sql, "default", "DELETE FROM everything_lockedrow WHERE id = 77")


@pytest.mark.fault("D4")
def test_a_connection_that_the_database_ended_is_not_the_next_calls(one_slot):
    if one_slot.mcp_alias != "default":
        pytest.skip("SQLite ends no connection")
    number = one_slot.call("python", {"code": CONNECTION})["result"]["structuredContent"]
    one_slot.ask(driver.sql, "default", f"SELECT pg_terminate_backend({number})" if IS_POSTGRESQL else f"KILL {number}")
    assert one_slot.call("orm_probe")["status"] == "completed"


CONNECTION = textwrap.dedent("""
    from django.db import connection
    number = "pg_backend_pid()" if connection.vendor == "postgresql" else "CONNECTION_ID()"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {number}")
        answer = cursor.fetchone()[0]
""")


def test_a_thread_that_outlives_its_call_tells_the_next_calls_client_nothing(one_slot):
    haunt = """
        def haunt():
            for n in range(300):
                ctx.log("info", "of the call before")
                time.sleep(0.005)
        threading.Thread(target=haunt, daemon=True).start()
    """
    one_slot.call("python", {"code": textwrap.dedent(haunt)})
    request_id = one_slot.submit("doze", {"seconds": 0.3})
    one_slot.ended(request_id)
    assert not [data for kind, data in one_slot.ask(driver.events, request_id) if kind == "log"]


@pytest.mark.fault("H1")
def test_an_interrupted_query_leaves_a_clean_connection(one_slot):
    for _ in range(3):
        request_id = one_slot.begin("slow_query")
        one_slot.cancel(request_id)
        assert one_slot.ended(request_id)["status"] == "cancelled"
        assert one_slot.text("orm_probe").endswith("True 0")
    if one_slot.mcp_alias == "default":
        left = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE state = 'active' AND query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()"
            if IS_POSTGRESQL
            else "SELECT count(*) FROM information_schema.processlist "
            "WHERE info LIKE '%SLEEP(60)%' AND id <> CONNECTION_ID()"
        )
        eventually(lambda: one_slot.ask(driver.sql, "default", left)[0][0] == 0, "the end of the query in the server")


def test_an_async_tools_database_thread_is_clean_for_the_next(one_slot):
    slow = """
        from asgiref.sync import sync_to_async
        from tests.execution.tools import slow_query
        def query():
            open(READY, "w").close()
            return slow_query()
        async def main():
            return await sync_to_async(query)()
    """
    count = """
        from tests.everything.models import LockedRow
        async def main():
            return await LockedRow.objects.acount()
    """
    assert stop(one_slot, slow, "python_async")["status"] == "cancelled"
    assert one_slot.call("python_async", {"code": textwrap.dedent(count)})["status"] == "completed"


@pytest.mark.fault("H1")
def test_an_orm_loop_is_stopped_wherever_it_is_and_the_next_call_is_fine(one_slot):
    for _ in range(8):
        request_id = one_slot.begin("orm_loop")
        one_slot.cancel(request_id)
        assert one_slot.ended(request_id)["status"] == "cancelled"
        assert one_slot.text("orm_probe").endswith("True 0")


def test_a_killed_process_is_replaced_and_the_next_call_runs(one_slot):
    deaf = f"signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR2}})\n{textwrap.dedent(SLEEPER)}"
    ended = stop(one_slot, deaf, cancel_policy="kill", hard_grace=0.1)
    assert (ended["status"], ended["stage"]) == ("cancelled", "kill")
    assert one_slot.text("pid") != str(ended["worker_pid"])


def test_many_cancelled_calls_leak_no_descriptor(one_slot):
    fds = "answer = len(os.listdir('/proc/self/fd'))"
    stop(one_slot, SLEEPER)
    before = one_slot.call("python", {"code": fds})["result"]["structuredContent"]
    coroutine = "async def main():\n    open(READY, 'w').close()\n    await asyncio.sleep(30)"
    for code, tool in [(SLEEPER, "python"), (coroutine, "python_async")] * 5:
        stop(one_slot, code, tool)
    assert one_slot.call("python", {"code": fds})["result"]["structuredContent"] <= before + 1


def test_a_running_worker_begins_to_consume_the_queue_that_a_tool_is_given(one_slot):
    waiting = one_slot.submit("pid", queue="brand-new")
    one_slot.ask(driver.change_tool, "pid", queue="brand-new")
    assert one_slot.ended(waiting, 30)["status"] == "completed"
    assert one_slot.call("pid", queue="brand-new")["status"] == "completed"
    assert one_slot.call("pid")["status"] == "completed"


STATE = """
mask = os.umask(0)
os.umask(mask)
answer = {"folder": os.getcwd(), "umask": mask, "environment": dict(os.environ)}
"""
CHANGES = """
os.chdir("/")
os.umask(0o777)
os.environ.pop("HOME", None)
os.environ["PATH"] = "/changed"
os.environ["ADDED"] = "by a call"
"""


@pytest.mark.fault("I9")
def test_I9_folder_umask_and_environment_are_restored_after_every_call(one_slot):
    def state():
        call = one_slot.call("python", {"code": STATE})
        found = call["result"]["structuredContent"]
        assert found["environment"].pop(MARKER) == str(call["id"])
        return found, call["worker_pid"]

    before = state()
    assert one_slot.call("python", {"code": CHANGES})["status"] == "completed"
    assert state() == before
    assert one_slot.call("python", {"code": f"{CHANGES}raise ValueError"})["status"] == "failed"
    assert state() == before
    assert stop(one_slot, f"{CHANGES}open(READY, 'w').close()\ntime.sleep(30)")["stage"] == "interrupt"
    assert state() == before


@pytest.mark.fault("I9")
def test_I9_a_timer_that_a_call_leaves_does_not_end_the_next(one_slot):
    assert one_slot.call("python", {"code": "signal.setitimer(signal.ITIMER_REAL, 0.3)"})["status"] == "completed"
    assert one_slot.call("doze", {"seconds": 0.6})["status"] == "completed"
