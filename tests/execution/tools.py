"""Tools that try what a worker must outlive."""

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.utils import timezone
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import activate, get_language, gettext, gettext_lazy

from mcp_app.tools import ToolContext, ToolError, tool
from tests.everything.models import LockedRow
from tests.everything.steps import append

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000000000) SELECT count(*) FROM n"
SLOW = {"sqlite": ENDLESS, "postgresql": "SELECT pg_sleep(60)", "mysql": "SELECT SLEEP(60)"}

logger = logging.getLogger(__name__)


@tool
def brief(path: str, name: str, seconds: float) -> str:
    """Append a line and take a moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{name}\n".encode())
    finally:
        os.close(descriptor)
    time.sleep(seconds)
    return name


@tool
def meet(folder: str, name: str, guests: int) -> str:
    """Wait until as many calls as `guests` run at once."""
    append(os.path.join(folder, name), "here")
    until = time.monotonic() + 15
    while len(os.listdir(folder)) < guests:
        if time.monotonic() > until:
            raise TimeoutError("nobody came")
        time.sleep(0.005)
    return name


@tool(permissions=["auth.view_user"])
def permitted(path: str) -> str:
    """Leave a line."""
    append(path, "ran")
    return "ran"


@tool(scopes=["ink"])
def refill() -> str:
    """Takes a scope."""
    return "filled"


@tool
def pid() -> str:
    """The process that runs this."""
    return str(os.getpid())


@tool
def doze(seconds: float) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


@tool
def slow_query() -> str:
    """A query that does not end by itself."""
    with connection.cursor() as cursor:
        cursor.execute(SLOW[connection.vendor])
    return "ended"


@tool
def shielded_query(seconds: float, ctx: ToolContext) -> str:
    """Run queries inside a shield. Their results are kept."""
    with ctx.shield():
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        ctx.partial_result = "whole"
    time.sleep(60)
    return "not cancelled"


@tool
def orm_loop() -> str:
    """Write and read until stopped."""
    while True:
        with transaction.atomic():
            row, _ = LockedRow.objects.get_or_create(pk=2)
            row.commits += 1
            row.save()


@tool
def orm_probe() -> str:
    """Use the connection as a tool does."""
    with transaction.atomic():
        return f"{LockedRow.objects.count()} {connection.in_atomic_block} {len(connection.savepoint_ids)}"


@tool
def python(code: str, ctx: ToolContext) -> Any:
    """Run any code; `answer` is what it leaves."""
    names: dict[str, Any] = {"ctx": ctx, **{m.__name__: m for m in MODULES}}
    exec(code, names)
    return names.get("answer", "done")


@tool
async def python_async(code: str, ctx: ToolContext) -> Any:
    """Run the coroutine function `main` that the code defines."""
    names: dict[str, Any] = {"ctx": ctx, **{m.__name__: m for m in MODULES}}
    exec(code, names)
    return await names["main"]()


@tool
@transaction.non_atomic_requests
def by_itself(ctx: ToolContext) -> str:
    """Leave a row, and fail."""
    Group.objects.create(name=f"{ctx.request.id} row")
    raise RuntimeError


@tool
def surroundings() -> dict[str, str]:
    """Say them, and leave others."""
    found = {"language": get_language(), "time_zone": get_current_timezone_name(), "yes": gettext("Yes")}
    activate("fr")
    timezone.activate("Asia/Tokyo")
    return found


@tool
def surroundings_together(folder: str, name: str, zone: str) -> dict[str, str]:
    """Say them while another call has its own."""
    if zone:
        timezone.activate(zone)
    meet(folder, name, 2)
    return {"language": str(get_language()), "time_zone": get_current_timezone_name(), "yes": gettext("Yes")}


@tool
def refuses() -> str:
    """Fail in words that are translated once they are said."""
    raise ToolError(gettext_lazy("This field is required."))


@tool
def make_user(name: str) -> str:
    """Make a user of the site; its key."""
    return str(get_user_model()._default_manager.create(username=name).pk)


@tool
def who_asks(ctx: ToolContext) -> str:
    """The caller's user."""
    return str(ctx.user)


@tool
async def who_asks_async(ctx: ToolContext) -> str:
    """The caller's user, in a coroutine."""
    return str(ctx.user)


@tool
def by_whom(ctx: ToolContext) -> str:
    """The caller."""
    return f"{ctx.principal.subject} of {ctx.principal.issuer}"


MODULES = (asyncio, logging, os, random, signal, subprocess, sys, threading, time)
