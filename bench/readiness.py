"""Waits until a started site responds."""

import asyncio
import time

from bench.client import CallFailedError, Client
from bench.stack import Stack, StackError
from bench.throughput import load


async def answered(
    stack: Stack, client: Client, request: bytes, within: float, *, at_once: int = 1, requests: int = 1
) -> None:
    """Send `requests` requests, `at_once` at a time, and try again until all succeed.

    Raises `StackError` if they do not within `within` seconds.
    """
    deadline = time.monotonic() + within
    while True:
        stack.check()
        try:
            async with asyncio.timeout(max(1.0, deadline - time.monotonic())):
                await load(client, request, connections=at_once, requests=requests)
        except (OSError, CallFailedError) as error:  # not listening yet, or the first call was too early
            if time.monotonic() > deadline:
                reason = f"It was not ready within {within:g} s: {error or 'no answer'}"
                raise StackError(f"{reason}\n{stack.log_tails()}") from error
            await asyncio.sleep(0.1)
        else:
            return
