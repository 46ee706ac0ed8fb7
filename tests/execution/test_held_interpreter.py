"""A tool that holds the interpreter stops every thread of its process. It must not stop a write in the middle:
a cancellation would then wait for the lock.
"""

import json
import time

import pytest

from tests.execution import driver
from tests.execution.site import Site, eventually

WATCHED = """
    import json
    from django.db.backends.utils import CursorWrapper
    from mcp_app.models import Request
    plain, halfway = CursorWrapper.execute, []

    def watching(cursor, sql, params=None):
        try:
            return plain(cursor, sql, params)
        finally:
            if cursor.db.in_atomic_block and threading.current_thread() is not threading.main_thread():
                halfway.append(sql)

    def written(**columns):
        until = time.monotonic() + 15
        while not Request.objects.filter(pk=ctx.request.id, **columns).exists():
            assert time.monotonic() < until, columns
            time.sleep(0.005)

    CursorWrapper.execute = watching
    try:
        with ctx.shield():
            ctx.progress(1, 2, 'one')
            ctx.log('info', 'words')
            ctx.once('key', lambda: 'value')
            written(progress=1, event_seq__gte=4)
            written(cancel_cause='deadline', stage__gte=1)
    finally:
        CursorWrapper.execute = plain
        with open(FOUND + '-', 'w') as file:
            json.dump(halfway, file)
        os.rename(FOUND + '-', FOUND)
"""
HOLDING = """
    import ctypes
    ctx.progress(1)
    time.sleep(random.uniform(0, 0.004))
    open(READY, 'w').close()
    ctypes.PyDLL(None).sleep(20)
"""


def source(code: str, **names: str) -> str:
    head = "\n".join(f"{name} = {value!r}" for name, value in names.items())
    return f"{head}\nif True:\n{code}"


def test_nothing_is_written_in_a_transaction_while_a_tool_runs(one_slot: Site) -> None:
    found = one_slot.data / "halfway"
    found.unlink(missing_ok=True)
    request_id = one_slot.submit("python", {"code": source(WATCHED, FOUND=str(found))}, time_limit=0.5)
    ended = one_slot.ended(request_id)
    assert json.loads(found.read_text()) == []
    assert (ended["status"], ended["cancel_cause"], ended["progress_message"]) == ("cancelled", "deadline", "one")
    assert " 0.5 s" in ended["cancel_reason"]
    assert "caller" not in ended["cancel_reason"]
    kinds = [kind for kind, _ in one_slot.ask(driver.events, request_id)]
    assert kinds[:2] == ["transition"] * 2
    assert sorted(kinds[2:6]) == ["cancel", "log", "progress", "stage"]


@pytest.mark.fault("A8")
@pytest.mark.parametrize("turn", range(4))
def test_a_tool_that_holds_the_interpreter_after_its_progress_is_cancelled_and_killed(
    one_slot: Site, turn: int
) -> None:
    ready = one_slot.data / f"holding-{turn}"
    ready.unlink(missing_ok=True)
    code = source(HOLDING, READY=str(ready))
    request_id = one_slot.submit("python", {"code": code}, cancel_policy="kill", hard_grace=0.1)
    eventually(ready.exists, "the tool's start")
    assert one_slot.cancel(request_id) == "accepted"
    ended = one_slot.ended(request_id)
    assert (ended["status"], ended["stage"]) == ("cancelled", "kill")
    assert [attempt["outcome"] for attempt in one_slot.ask(driver.attempts, request_id)] == ["accepted"]


@pytest.mark.fault("I6")
def test_I6_the_worker_measures_the_limit_of_a_tool_that_holds_the_interpreter(one_slot: Site) -> None:
    ready = one_slot.data / "beyond-its-limit"
    ready.unlink(missing_ok=True)
    code = source(HOLDING, READY=str(ready))
    began_at = time.monotonic()
    request_id = one_slot.submit("python", {"code": code}, cancel_policy="kill", hard_grace=0.1, time_limit=1.0)
    ended = one_slot.ended(request_id)
    assert (ended["status"], ended["cancel_cause"], ended["stage"]) == ("cancelled", "deadline", "kill")
    assert " 1 s" in ended["cancel_reason"]
    assert "caller" not in ended["cancel_reason"]
    assert 1.0 < time.monotonic() - began_at < 15.0
