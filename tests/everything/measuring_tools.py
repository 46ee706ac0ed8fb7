"""Tools for measurements: the latency of calls, and how reliably each kind of body is stopped.

Their names, parameters and policies are a contract (issue 2, "tests/everything"), which a test checks.
"""

import asyncio
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from django.db import transaction as transactions

from mcp_app.resources import notify_resource_updated, notify_resources_list_changed, resource
from mcp_app.tools import CancelPolicy, TaskMode, ToolContext, ToolError, tool
from tests.everything import generations, gil
from tests.everything.changes import change_tools
from tests.everything.models import LockedRow
from tests.everything.steps import Steps, append

INTERRUPTED: Final[dict[str, Any]] = {"cancel": CancelPolicy.INTERRUPT, "cooperative_grace": 0}
KILLED: Final[dict[str, Any]] = {"cancel": CancelPolicy.KILL, "cooperative_grace": 0, "hard_grace": 0.5}

Number = int | float

POLL_SECONDS: Final = 0.01

COUNTER: Final = "counter://commits"


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool
def add(a: Number, b: Number) -> Number:
    """Return the sum of two numbers."""
    return a + b


@tool(**INTERRUPTED | {"cooperative_grace": 1.0})  # a busy machine may need longer than usual to end a coroutine
async def sleep(seconds: float, path: str, step: float = 0.1) -> str:
    """Append a line to the file at each step, as a coroutine."""
    steps = Steps(path, seconds, step)
    while steps.remain:
        steps.take()
        await asyncio.sleep(step)
    return steps.summary


@tool(**INTERRUPTED)
def sleep_sync(seconds: float, path: str, step: float = 0.1) -> str:
    """Append a line to the file at each step, blocking."""
    return _step_through(Steps(path, seconds, step))


@tool(task=TaskMode.ALWAYS, **INTERRUPTED)
def step_as_task(seconds: float, path: str, step: float = 0.1) -> str:
    """Append a line to the file at each step, blocking, as a task."""
    return _step_through(Steps(path, seconds, step))


@tool(**KILLED)
def stubborn(seconds: float, path: str, step: float = 0.1) -> str:
    """Append a line to the file at each step and swallow every exception."""
    steps = Steps(path, seconds, step)
    while steps.remain:
        with suppress(BaseException):
            _step_through(steps)
    return steps.summary


@tool(**KILLED)
def spawn(seconds: float, path: str, step: float = 0.1) -> str:
    """Wait for a child whose own child appends a line to the file at each step."""
    command = generations.command(seconds, Path(path).absolute(), step)
    with subprocess.Popen(command, cwd=generations.ROOT) as child:
        status = child.wait()
    return f"exit status {status}"


@tool(**KILLED)
def blocked(seconds: float) -> str:
    """Block inside C code with the GIL held, so that no signal handler can run."""
    gil.hold(seconds)
    return f"{seconds} seconds"


@tool(**INTERRUPTED)
def cleanup(seconds: float, path: str) -> str:
    """Sleep, and append `finally` to the file on the way out."""
    try:
        time.sleep(seconds)
    finally:
        append(path, "finally\n")
    return f"{seconds} seconds"


@tool(cancel=CancelPolicy.COOPERATIVE)
def polite(seconds: float, path: str, ctx: ToolContext) -> str:
    """Check for cancellation. If cancelled, append `cancelled` to the file and return the number of checks."""
    polls = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if ctx.cancelled:
            append(path, "cancelled\n")
            break
        polls += 1
        time.sleep(POLL_SECONDS)
    return f"{polls} polls"


@tool(**INTERRUPTED)
def transaction(seconds: float) -> str:
    """Sleep inside a transaction of the site's database with a row locked."""
    with transactions.atomic():
        LockedRow.objects.get_or_create(pk=1)
        row = LockedRow.objects.select_for_update().get(pk=1)
        row.commits += 1
        row.save()
        time.sleep(seconds)
    return str(row)


@tool
def count(path: str) -> str:
    """Append one line to the file in each run."""
    append(path, f"{time.time()!r} 0\n")
    return "counted"


@tool(**INTERRUPTED)
def progress(steps: int, delay: float, ctx: ToolContext) -> str:
    """Report progress at each step, the message being the time of the report."""
    for done in range(1, steps + 1):
        ctx.progress(done, steps, repr(time.time()))
        time.sleep(delay)
    return f"{steps} steps"


@tool(**INTERRUPTED)
def heard_progress(steps: int, path: str, ctx: ToolContext) -> str:
    """Report progress at each step, and wait until somebody has appended one byte to the file for each report."""
    heard = Path(path)
    for done in range(1, steps + 1):
        ctx.progress(done, steps, repr(time.time()))
        while not heard.exists() or heard.stat().st_size < done:
            time.sleep(POLL_SECONDS)  # the test is another process, and a file is all that they share
    return f"{steps} steps"


@tool(**INTERRUPTED)
def flood(count: int, ctx: ToolContext) -> str:
    """Report progress as fast as possible."""
    for done in range(1, count + 1):
        ctx.progress(done, count)
    return f"{count} reports"


@tool(**INTERRUPTED)
def big(bytes: int) -> str:
    """Return a text of that many bytes."""
    return "x" * bytes


@tool
def trigger_change() -> str:
    """Change the list of tools and return the time at which it was changed."""
    change_tools()
    return repr(time.time())


@tool
def move_counter(commit: bool) -> str:
    """Increment the counter at `counter://commits`, notify subscribers, and then commit or roll back."""
    try:
        with transactions.atomic():
            row, _ = LockedRow.objects.get_or_create(pk=1)
            row.commits += 1
            row.save()
            notify_resources_list_changed()
            notify_resource_updated(COUNTER)
            if not commit:
                raise ToolError("rolled back")
    except ToolError as error:
        return str(error)
    return "committed"


@resource(COUNTER)
def counter() -> int:
    """The number of commits of `transaction` and `move_counter`."""
    return LockedRow.objects.filter(pk=1).values_list("commits", flat=True).first() or 0


def _step_through(steps: Steps) -> str:
    while steps.remain:
        steps.take()
        time.sleep(steps.step)
    return steps.summary
