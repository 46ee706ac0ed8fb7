"""Runs all clients, each in a thread that does one errand after another until it is stopped."""

import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Final

from tests.chaos import plan
from tests.chaos.clients import askers, hostile, legacy, listeners, modern, stdio, tasks
from tests.chaos.clients.doors import Doors
from tests.chaos.ledger import Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import Site

PATIENCE: Final = 120.0
"""Seconds for the last errands to end."""

DOING: Final[Mapping[str, Callable[[Site, Ledger, Doors, Errand], None]]] = {
    "sse": modern.sse,
    "json": modern.json,
    "session": legacy.session,
    "stateless": legacy.stateless,
    "task": tasks.task,
    "asker": askers.asker,
    "listener": listeners.listener,
    "hostile": hostile.hostile,
}


class Crowd:
    """All clients of a run. `problems` lists their own errors, and processes of theirs that did not end properly."""

    def __init__(self, site: Site, ledger: Ledger, seed: int, size: int) -> None:
        self._site = site
        self._ledger = ledger
        self._seed = seed
        self._doors = Doors(site)
        self._stopping = threading.Event()
        self.problems: list[str] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(self._go, f"c{number}"), daemon=True) for number in range(size)
        ]
        self._threads.append(threading.Thread(target=self._guarded, args=(self._go_stdio, "io"), daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait until each client has finished its errand."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                self.problems.append(f"the client {thread.name} did not come to its end in {PATIENCE:g} s")

    def _guarded(self, go: Callable[[str], None], client: str) -> None:
        try:
            go(client)
        except Exception:
            self.problems.append(f"client {client}: {traceback.format_exc()}")

    def _go(self, client: str) -> None:
        for errand in plan.errands(self._seed, client):
            if self._stopping.is_set():
                return
            DOING[errand.kind](self._site, self._ledger, self._doors, errand)
            self._stopping.wait(errand.pause)

    def _go_stdio(self, name: str) -> None:
        client: stdio.Client | None = None
        for errand in plan.errands(self._seed, name, only="stdio"):
            if self._stopping.is_set():
                break
            client = client or stdio.Client(self._site, self._ledger)
            goes_on = client.serve(errand)
            if not goes_on or errand.number % stdio.OF_ONE_PROCESS == 0:
                self._part(client)
                client = None
            self._stopping.wait(errand.pause)
        if client is not None:
            self._part(client)

    def _part(self, client: stdio.Client) -> None:
        if wrong := client.close():
            self.problems.append(wrong)
