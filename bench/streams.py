"""Measures how soon progress and changes reach clients on event streams."""

import asyncio
import time

from bench.client import META, CallFailedError, Client, Connection, Message

DELAY = 0.02
CHANGE_SECONDS = 15.0
BETWEEN_CHANGES = 0.3


async def progress_delays(client: Client, steps: int) -> list[float]:
    """Return the seconds from each report in the tool to its notification here. Its message is the time of the report.

    Reports that did not arrive are not in the list. Raises `CallFailedError`.
    """
    delays: list[float] = []

    def note(message: Message) -> None:
        if message["method"] == "notifications/progress":
            delays.append(time.time() - float(message["params"]["message"]))

    connection = await client.connect()
    await connection.send(client.call("progress", {"steps": steps, "delay": DELAY}, progress_token="bench"), note)
    connection.close()
    return delays


class Listeners:
    """Opens many `subscriptions/listen` streams, and counts the streams that the latest change has reached."""

    def __init__(self) -> None:
        self._connections: list[Connection] = []
        self._missing: set[Connection] = set()
        self._all_heard = asyncio.Event()

    @property
    def heard(self) -> int:
        """The number of streams that the latest change has reached."""
        return len(self._connections) - len(self._missing)

    async def open(self, client: Client, streams: int, *, at_once: int = 1) -> None:
        """Open streams, and wait until each is acknowledged. Raises `CallFailedError`."""
        request = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        tickets = iter(range(streams))

        async def pull() -> None:
            for _ in tickets:
                self._connections.append(await self._subscribe(client, request))

        await asyncio.gather(*(pull() for _ in range(at_once)))

    async def change(self, client: Client, seconds: float = CHANGE_SECONDS) -> float:
        """Change the tool list, and return the seconds from the request until the change has reached every stream.

        Raises `CallFailedError` and `TimeoutError`.
        """
        connection = await client.connect()
        self._missing = set(self._connections)
        self._all_heard.clear()
        began_at = time.perf_counter()
        answer = connection.send(client.call("trigger_change", {}))
        async with asyncio.timeout(seconds):
            await self._all_heard.wait()
            took = time.perf_counter() - began_at
            await answer
        connection.close()
        return took

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    async def _subscribe(self, client: Client, request: bytes) -> Connection:
        connection = await client.connect()
        acknowledged = asyncio.get_running_loop().create_future()

        def note(message: Message) -> None:
            if message["method"] == "notifications/tools/list_changed":
                self._heard(connection)
            elif "acknowledged" in message["method"] and not acknowledged.done():
                acknowledged.set_result(message["params"].get("_meta", {}).get(f"{META}subscriptionId"))

        ended = connection.send(request, note)
        await asyncio.wait([ended, acknowledged], timeout=CHANGE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not acknowledged.done():
            connection.close()
            raise CallFailedError(f"stream {len(self._connections)} was not acknowledged: {ended}")
        return connection

    def _heard(self, connection: Connection) -> None:
        self._missing.discard(connection)
        if not self._missing:
            self._all_heard.set()


async def fan_out(client: Client, streams: int, changes: int) -> list[float]:
    """Return the seconds from the request for a change until it has reached all streams, for each of `changes`.

    Raises `CallFailedError` and `TimeoutError`.
    """
    listeners = Listeners()
    try:
        await listeners.open(client, streams)
        times = []
        for _ in range(changes):
            times.append(await listeners.change(client))
            await asyncio.sleep(BETWEEN_CHANGES)
        return times
    finally:
        listeners.close()
