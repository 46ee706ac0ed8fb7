"""Async tools are stopped reliably, and so are their threads."""

import pytest

from tests.execution import driver
from tests.execution.programs import SHIELDED_COROUTINE, SWALLOWING_COROUTINE
from tests.execution.site import stop


def test_cancellation_reaches_every_task_of_a_group(one_slot):
    code = """
        async def one(number):
            while True:
                ctx.progress(time.monotonic())
                await asyncio.sleep(0.01)
        async def main():
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(one(number))
                open(READY, "w").close()
    """
    ended = stop(one_slot, code, "python_async")
    assert (ended["status"], ended["stage"]) == ("cancelled", "cooperative")


def test_a_tool_that_swallows_its_cancellation_is_interrupted(one_slot):
    ended = stop(one_slot, SWALLOWING_COROUTINE, "python_async")
    assert (ended["status"], ended["stage"]) == ("cancelled", "interrupt")


def test_a_tool_that_swallows_everything_is_killed(one_slot):
    code = """
        async def main():
            open(READY, "w").close()
            while True:
                try:
                    await asyncio.sleep(0.05)
                except BaseException:
                    pass
    """
    ended = stop(one_slot, code, "python_async", cancel_policy="kill")
    assert (ended["status"], ended["stage"]) == ("cancelled", "kill")


def test_an_interrupted_tool_may_still_await_while_it_cleans_up(one_slot):
    code = """
        async def main():
            try:
                open(READY, "w").close()
                time.sleep(30)
            finally:
                await asyncio.sleep(0.01)
                ctx.partial_result = "clean"
    """
    ended = stop(one_slot, code, "python_async")
    assert ended["partial_result"]["content"][0]["text"] == "clean"


def test_a_shield_puts_the_cancellation_of_a_coroutine_off(one_slot):
    ended = stop(one_slot, SHIELDED_COROUTINE, "python_async")
    assert ended["status"] == "cancelled"
    assert ended["partial_result"]["content"][0]["text"] == "whole"


@pytest.mark.parametrize("bridge", ["asyncio.to_thread", "__import__('asgiref.sync').sync.sync_to_async"])
def test_a_call_is_not_stopped_before_its_threads_are(one_slot, bridge):
    over = one_slot.data / f"over-{bridge[:3]}"
    thread = "asyncio.to_thread(work)" if bridge == "asyncio.to_thread" else f"{bridge}(work)()"
    code = f"""
        def work():
            open(READY, "w").close()
            time.sleep(0.8)
            open({str(over)!r}, "w").close()
        async def main():
            await {thread}
    """
    assert stop(one_slot, code, "python_async")["status"] == "cancelled"
    assert over.exists()
    names = one_slot.call("python", {"code": "answer = [t.name for t in threading.enumerate()]"})
    assert not [name for name in names["result"]["structuredContent"] if name.startswith("mcp-tool")]


def test_a_thread_of_an_async_tool_is_told_by_the_context(one_slot):
    code = """
        def work():
            open(READY, "w").close()
            while True:
                ctx.progress(time.monotonic())
        async def main():
            await asyncio.to_thread(work)
    """
    ended = stop(one_slot, code, "python_async")
    assert ended["status"] == "cancelled"
    assert one_slot.ask(driver.row, one_slot.submit("pid"))


def test_after_a_shield_an_interrupted_coroutine_may_still_await_while_it_cleans_up(one_slot):
    code = """
        async def main():
            try:
                with ctx.shield():
                    open(READY, "w").close()
                    await asyncio.sleep(0.8)
            finally:
                await asyncio.sleep(0.05)
                ctx.partial_result = "released"
    """
    ended = stop(one_slot, code, "python_async")
    assert ended["status"] == "cancelled"
    assert ended["partial_result"]["content"][0]["text"] == "released"


def test_a_shielded_sleep_lasts_as_long_as_it_says(one_slot):
    code = """
        with ctx.shield():
            began = time.monotonic()
            open(READY, "w").close()
            ctx.sleep(0.6)
            ctx.sleep(0.2)
            ctx.partial_result = f"{time.monotonic() - began >= 0.8}"
        ctx.sleep(30)
    """
    ended = stop(one_slot, code)
    assert ended["status"] == "cancelled"
    assert ended["partial_result"]["content"][0]["text"] == "True"
