"""Code that the tools of all servers share, including this project's. Standard library only."""

import asyncio
import os
import time

STEP_SECONDS = 0.01


async def held(number: int, seconds: float, path: str) -> str:
    """Wait. Append a line to the file at the beginning and another at the end, also after a cancellation."""
    append(path, f"began {number} {time.time()!r}\n")
    try:
        await asyncio.sleep(seconds)
    finally:
        append(path, f"ended {number} {time.time()!r}\n")
    return f"{seconds} s"


def worked(seconds: float, path: str) -> str:
    """Block, as a tool that computes or waits does. Append the time to the file at each step."""
    end_at = time.time() + seconds
    while (now := time.time()) < end_at:
        append(path, f"{now!r}\n")
        time.sleep(STEP_SECONDS)
    return f"{seconds} s"


def append(path: str, line: str) -> None:
    """Append a line in a single write, so that the writes of other processes do not split it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
