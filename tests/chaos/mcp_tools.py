"""Tools that react to cancellation in different ways. Each records its beginning, steps and end in its request's file.

`tag` is the caller's own name for the call. A result begins with `done` and the tag.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction as transactions

from mcp_app.tools import CancelPolicy, TaskMode, ToolContext, ToolError, tool
from tests.chaos import journal
from tests.everything import gil
from tests.everything.models import LockedRow

STEP: Final = 0.05
JOURNAL: Final = Path(settings.DATA, journal.FOLDER)
TAGS: Final = Path(settings.DATA, journal.TAGS)
INTERRUPTED: Final[dict[str, Any]] = {"cancel": CancelPolicy.INTERRUPT, "cooperative_grace": 0}
KILLED: Final[dict[str, Any]] = {"cancel": CancelPolicy.KILL, "cooperative_grace": 0, "hard_grace": 0.4}
FORM: Final[dict[str, Any]] = {"type": "object", "properties": {"yes": {"type": "boolean"}}}

# `_FAMILY` runs one writer in a session of its own, and another one directly. Both have the request's marker.
_WRITER: Final = 'n={n}; while [ $n -gt 0 ]; do echo "step {how}" >> {path}; n=$((n-1)); sleep {step}; done'
_FAMILY: Final = "(setsid sh -c '{writer}' &) ; {own} ; wait"


class Work:
    """Writes one call's file, and counts the steps that fill its time."""

    def __init__(self, tag: str, ctx: ToolContext) -> None:
        self.tag = tag
        self.path = JOURNAL / str(ctx.request.id)
        JOURNAL.mkdir(exist_ok=True)
        TAGS.mkdir(exist_ok=True)
        journal.note(self.path, "begin", tag, os.getpid())
        with suppress(FileExistsError):
            (TAGS / tag).symlink_to(self.path.name)

    def steps(self, seconds: float) -> Iterator[int]:
        for number in range(round(seconds / STEP)):
            journal.note(self.path, "step")
            yield number

    def done(self) -> str:
        journal.note(self.path, "end")
        return f"done {self.tag}"


@tool(**INTERRUPTED)
def chaos_quick(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Return at once."""
    return Work(tag, ctx).done()


@tool(cancel=CancelPolicy.COOPERATIVE)
def chaos_cooperative(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Check for cancellation between steps, and report progress."""
    work = Work(tag, ctx)
    for number in work.steps(seconds):
        ctx.progress(number + 1)
        ctx.sleep(STEP)
    return work.done()


@tool(**INTERRUPTED)
def chaos_blocking(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Never check for cancellation."""
    work = Work(tag, ctx)
    for _ in work.steps(seconds):
        time.sleep(STEP)
    return work.done()


@tool(**INTERRUPTED)
async def chaos_async(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Wait in a coroutine."""
    work = Work(tag, ctx)
    for number in work.steps(seconds):
        ctx.progress(number + 1)
        await asyncio.sleep(STEP)
    return work.done()


@tool(**KILLED)
def chaos_stubborn(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Swallow every exception, and continue."""
    work = Work(tag, ctx)
    for _ in work.steps(seconds):
        with suppress(BaseException):
            time.sleep(STEP)
    return work.done()


@tool(**KILLED)
def chaos_blocked(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Block inside C code with the GIL held."""
    work = Work(tag, ctx)
    gil.hold(seconds)
    return work.done()


@tool(**KILLED)
def chaos_family(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Wait for a shell that writes, and that has started another writer in a session of its own."""
    work = Work(tag, ctx)
    subprocess.run(["sh", "-c", _family(work, seconds)], check=False)
    return work.done()


@tool(**INTERRUPTED)
def chaos_program(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Run the shell of `chaos_family` with `ctx.run`."""
    work = Work(tag, ctx)
    ctx.run(["sh", "-c", _family(work, seconds)], progress=True)
    return work.done()


@tool(**INTERRUPTED)
def chaos_transaction(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Keep a row of the site's database locked."""
    work = Work(tag, ctx)
    with transactions.atomic():
        LockedRow.objects.get_or_create(pk=1)
        row = LockedRow.objects.select_for_update().get(pk=1)
        for number in work.steps(min(seconds, 1.0)):
            ctx.progress(number + 1)
            time.sleep(STEP)
        row.commits += 1
        row.save()
    return work.done()


@tool(**INTERRUPTED)
def chaos_failing(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Fail with a `ToolError` or with an unexpected exception."""
    work = Work(tag, ctx)
    for _ in work.steps(min(seconds, 0.5)):
        time.sleep(STEP)
    journal.note(work.path, "end")
    if len(tag) % 2:
        raise ToolError(f"failed {tag}")
    raise RuntimeError(tag)


@tool(**INTERRUPTED)
def chaos_large(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Return half a megabyte."""
    return Work(tag, ctx).done() + " " + "x" * 500_000


@tool(asks=[FORM], **INTERRUPTED)
def chaos_asking(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Make one side effect, ask twice, and return."""
    work = Work(tag, ctx)
    ctx.once("effect", lambda: _effect(work))
    first = ctx.elicit("first", "Go on?", FORM)
    second = ctx.elicit("second", "Really?", FORM)
    journal.note(work.path, "end")
    return f"done {tag} {first.action} {second.action}"


@tool(task=TaskMode.ALWAYS, **INTERRUPTED)
def chaos_task(tag: str, seconds: float, ctx: ToolContext) -> str:
    """Work as a task."""
    work = Work(tag, ctx)
    for number in work.steps(seconds):
        ctx.progress(number + 1)
        time.sleep(STEP)
    return work.done()


@tool
def chaos_meet(folder: str, name: str, guests: int) -> str:
    """Wait until `guests` calls run at the same time."""
    Path(folder, name).touch()
    until = time.monotonic() + 15
    while len(list(Path(folder).iterdir())) < guests:
        if time.monotonic() > until:
            raise ToolError("the others did not come")
        time.sleep(STEP)
    return "met"


def _effect(work: Work) -> int:
    journal.note(work.path, "once")
    return 1


def _family(work: Work, seconds: float) -> str:
    """Return the shell code of both writers.

    The writer in its own session writes for a shorter time, so that no process remains if the tool is not stopped.
    """
    shares = {"apart": 0.6, "within": 1.0}
    writers = [
        _WRITER.format(n=round(share * seconds / STEP), how=how, path=work.path, step=STEP)
        for how, share in shares.items()
    ]
    return _FAMILY.format(writer=writers[0], own=writers[1])
