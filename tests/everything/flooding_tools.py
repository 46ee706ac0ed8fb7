"""Tools with too much output: faster or larger than a client can use, or invalid."""

import math
import time
from typing import Any

from mcp_app.tools import ToolContext, tool
from tests.everything.measuring_tools import INTERRUPTED


@tool(**INTERRUPTED)
def flood_for(seconds: float, ctx: ToolContext) -> str:
    """Report progress as fast as possible for the given time, and return the number of reports."""
    done = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done += 1
        ctx.progress(done)
    return str(done)


@tool(**INTERRUPTED)
def pour(megabytes: int, ctx: ToolContext, rest: float = 0.0) -> str:
    """Log the given amount of text, sleep for `rest` seconds, and return the amount."""
    line = "x" * 8_000
    for _ in range(megabytes * 1_000_000 // len(line)):
        ctx.log("warning", line)
        time.sleep(0)
    ctx.sleep(rest)
    return f"{megabytes} MB"


@tool
def odd_progress(ctx: ToolContext) -> str:
    """Report invalid progress values between valid ones from 1 to 5."""
    odd: list[Any] = [
        1,
        math.nan,
        math.inf,
        -math.inf,
        "2",
        True,
        None,
        [],
        0.5,
        1,
        -3,
        10**400,
        2.5,
    ]
    for value in odd:
        ctx.progress(value)
    ctx.progress(3, math.nan, "a total that is none")
    ctx.progress(4, "5", "x\x00\ud800")  # type: ignore[arg-type]
    ctx.progress(5, 5)
    return "reported"
