"""What the tools of all servers have in common, ours included. Standard library only."""

import asyncio
import os
import time


async def held(number: int, seconds: float, path: str) -> str:
    """Wait; the file has a line for the beginning and one for the end, whatever ends it."""
    append(path, f"began {number} {time.time()!r}\n")
    try:
        await asyncio.sleep(seconds)
    finally:
        append(path, f"ended {number} {time.time()!r}\n")
    return f"{seconds} s"


def append(path: str, line: str) -> None:
    """In one write, which those of other processes do not cut."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
