"""`mcp supervise`: supervision as a process of its own, so that requests end also where no worker and no server lives.

Beats its own heart: who cannot be heard calls nobody silent. Refuses to end for a database that is away: it waits for
it, and says so once.
"""

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType

from django.db import Error, connections

from mcp_app.conf import settings
from mcp_app.execution.orphans import kill_orphans
from mcp_app.lifecycle import processes, supervision
from mcp_app.lifecycle.processes import Identity
from mcp_app.lifecycle.quiet import Rounds
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)


def once() -> bool:
    """One round; whether nothing in it failed."""
    supervisor = _Supervisor()
    try:
        return supervisor.is_heard() and supervisor.supervise(supervision.supervise)
    finally:
        supervisor.leave()


def run() -> None:
    """A round every `SUPERVISION_INTERVAL`, or where it is quiet a look, until SIGTERM or SIGINT; a second signal does
    not wait for the round.
    """
    supervisor = _Supervisor()
    rounds = Rounds(supervisor.take_turn)
    supervised_at = float("-inf")
    with _told_to_stop() as told:
        while True:
            if supervisor.is_heard() and time.monotonic() - supervised_at >= settings.SUPERVISION_INTERVAL:
                supervised_at = time.monotonic()
                rounds.take()
            try:
                told.get(timeout=min(settings.HEARTBEAT_INTERVAL, settings.SUPERVISION_INTERVAL))
                break
            except Empty:
                continue
    supervisor.leave()


class _Supervisor:
    """This process, heard or not."""

    def __init__(self) -> None:
        self._identity = Identity(ProcessRole.SUPERVISOR)
        self._heard = True

    def is_heard(self) -> bool:
        """Beat; whether the database took it. What changes is logged."""
        try:
            processes.beat(self._identity)
        except Error as error:
            if self._heard:
                logger.error("supervision waits for the database: %s", str(error).strip())
            self._heard = False
            connections.close_all()
            return False
        if not self._heard:
            logger.warning("the database is back, and supervision goes on")
        self._heard = True
        return True

    def take_turn(self) -> bool:
        return self.supervise(partial(supervision.take_turn, self._identity))

    def supervise(self, go_round: Callable[[], bool]) -> bool:
        """A round, and what only this host can do; whether nothing failed."""
        completed = go_round()
        try:
            kill_orphans()
        except Exception:
            logger.exception("what lost requests left behind could not be looked for")
            completed = False
        if not completed:
            connections.close_all()
        return completed

    def leave(self) -> None:
        """Say that this process ends; supervision elsewhere forgets one that could not."""
        try:
            processes.stop(self._identity)
        except Error as error:
            logger.warning("the end of this process could not be noted: %s", str(error).strip())
        connections.close_all()


@contextmanager
def _told_to_stop() -> Iterator[SimpleQueue[int]]:
    """A queue that gets the first SIGTERM or SIGINT; the next one does what it does by default."""
    # A signal may come while the queue is read: of all that could wake the reader only this may be used then.
    told: SimpleQueue[int] = SimpleQueue()

    def handle(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        told.put(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
