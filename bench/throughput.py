"""Measures the rate and the duration of requests over a number of keep-alive connections."""

import asyncio
import math
import time
from dataclasses import dataclass

from bench.client import Client, Connection


@dataclass(frozen=True, slots=True)
class Load:
    """The result of one load: the duration of each request and of the whole load, in seconds."""

    latencies: list[float]
    seconds: float

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds


async def load(client: Client, request: bytes, *, connections: int, requests: int, seconds: float = math.inf) -> Load:
    """Send a request `requests` times, one at a time on each connection, and none after `seconds`.

    Raises `CallFailedError`.
    """
    opened = [await client.connect() for _ in range(connections)]
    tickets = iter(range(requests))
    latencies: list[float] = []

    async def pull(connection: Connection) -> None:
        for _ in tickets:
            sent_at = time.perf_counter()
            if sent_at > began_at + seconds:
                break
            await connection.send(request)
            latencies.append(time.perf_counter() - sent_at)
            if not connection.open:
                connection = await client.connect()
        connection.close()

    began_at = time.perf_counter()
    await asyncio.gather(*map(pull, opened))
    return Load(latencies, time.perf_counter() - began_at)
