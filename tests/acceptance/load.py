"""A steady load of several kinds of calls on the servers that are live, and the outcome of each for its client."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from tests.acceptance.test_tasks import KNOWS
from tests.support.site.legacy_wire import Client, events
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import call, message, text
from tests.support.waiting import eventually

CUT = (OSError, HTTPException, ValueError)
"""The exceptions of a client whose connection fails, or ends without a response."""
PATIENCE = 30.0
LEGACY_STEPS = 20
"""Steps of 0.1 s: together longer than a stopping server waits for its streams, so that some streams are cut."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The outcome of one request for its client.

    `kind` is `completed`, `told` (an error result), `refused` (an HTTP or JSON-RPC error) or `cut` (no response).
    """

    request_id: str
    kind: str
    words: str = ""


class Load:
    """Clients in threads. They send their next requests to the servers that `Stack.serve_from` was given last."""

    def __init__(self, site: Stack) -> None:
        self._site = site
        self._ending = threading.Event()
        self.learned: list[Learned] = []
        self.resumed = 0

    @contextmanager
    def running(self, *, hasty: int = 2) -> Iterator[None]:
        kinds = [*[self._short] * hasty, self._long, self._task, self._session]
        threads = [threading.Thread(target=self._repeat, args=(kind(),)) for kind in kinds]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ending.set()
            for thread in threads:
                thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads), "a client still waits"

    @property
    def kinds(self) -> Counter[str]:
        return Counter(each.kind for each in self.learned)

    def server(self) -> Server:
        return random.choice(self._site.servers)

    def _repeat(self, client: Iterator[Learned]) -> None:
        for learned in client:
            self.learned.append(learned)
            if self._ending.wait(0.02 if learned.kind == "completed" else 0.1):
                return

    def _short(self) -> Iterator[Learned]:
        while True:
            yield self._ask(call("echo", text="x"))

    def _long(self) -> Iterator[Learned]:
        while True:
            yield self._ask(call("sleep_sync", seconds=0.8, path="/dev/null", step=0.1))

    def _task(self) -> Iterator[Learned]:
        """Create tasks, and poll each at any server until it ends."""
        while True:
            arguments = {"seconds": 0.8, "path": "/dev/null", "step": 0.1}
            body = message("tools/call", meta=KNOWS, name="step_as_task", arguments=arguments)
            made = self._ask(body, lambda result: str(result["taskId"]))
            yield made if made.kind != "completed" else self._follow(made)

    def _follow(self, made: Learned) -> Learned:
        ended = eventually(lambda: self._ended(made.words), f"task {made.words} ends", PATIENCE)
        assert ended is not None
        kind = "completed" if ended["status"] == "completed" and not ended["result"].get("isError") else "told"
        return Learned(made.request_id, kind, ended.get("statusMessage") or "")

    def _ended(self, task_id: str) -> dict[str, Any] | None:
        try:
            task = self._site.post(message("tasks/get", meta=KNOWS, taskId=task_id), server=self.server()).result()
        except (*CUT, KeyError):
            return None
        return None if task["status"] == "working" else task

    def _session(self) -> Iterator[Learned]:
        """Make all calls in one legacy session. If the stream of a call is cut, resume it at any server."""
        client = Client.opened(self._site, self.server())
        while True:
            yield self._call_in(client)

    def _call_in(self, client: Client) -> Learned:
        last, request_id = "", ""
        begun = False
        for _ in range(20):
            try:
                if not begun:
                    connection = client.call("progress", self.server(), token="t", steps=LEGACY_STEPS, delay=0.1)
                    request_id = str(connection.request_id)
                    if connection.response.status != 200:
                        return Learned(request_id, "refused")
                else:
                    self.resumed += 1
                    connection = client.get(self.server(), last)
                for event in events(connection):
                    last, begun = (event.id or last, True) if event else (last, begun)
                    if event and event.message and "id" in event.message:
                        result = event.message["result"]
                        return Learned(request_id, "told" if result.get("isError") else "completed", text(result))
            except (*CUT, AssertionError):
                if not begun:
                    return Learned(request_id, "cut")
        return Learned(request_id, "cut")

    def _ask(
        self, body: Mapping[str, Any], words: Callable[[dict[str, Any]], str] = text, server: Server | None = None
    ) -> Learned:
        request_id = str(body["id"])
        try:
            connection = self._site.post(body, server=server or self.server())
            if connection.response.status != 200:
                return Learned(request_id, "refused", str(connection.response.status))
            answer = connection.answer()
        except CUT:
            return Learned(request_id, "cut")
        if "result" not in answer:
            return Learned(request_id, "refused" if "error" in answer else "cut", str(answer.get("error", "")))
        return Learned(request_id, "told" if answer["result"].get("isError") else "completed", words(answer["result"]))
