"""`mcp supervise`: runs supervision as a process of its own.

With it, requests end even if no worker and no server is alive. It writes heartbeats, because a process that cannot
write them must not declare others dead. It waits for a database that is away, and logs that once.
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
from mcp_app.execution.stopping.orphans import kill_orphans
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.supervision import rounds as supervision
from mcp_app.lifecycle.supervision.idle import SupervisionTurns
from mcp_app.states import ProcessRole

logger = logging.getLogger(__name__)


def once() -> bool:
    """Run one round. Return whether all its steps succeeded."""
    supervisor = _Supervisor()
    try:
        return supervisor.is_heard() and supervisor.supervise(supervision.supervise)
    finally:
        supervisor.leave()


def run() -> None:
    """Run a round every `SUPERVISION_INTERVAL`, or a check while the site is idle, until SIGTERM or SIGINT.

    A second signal does not wait for the end of the round.
    """
    supervisor = _Supervisor()
    rounds = SupervisionTurns(supervisor.take_turn)
    supervised_at = float("-inf")
    with _told_to_stop() as signals:
        while True:
            if supervisor.is_heard() and time.monotonic() - supervised_at >= settings.SUPERVISION_INTERVAL:
                supervised_at = time.monotonic()
                rounds.take()
            try:
                signals.get(timeout=min(settings.HEARTBEAT_INTERVAL, settings.SUPERVISION_INTERVAL))
                break
            except Empty:
                continue
    supervisor.leave()


class _Supervisor:
    """Runs rounds and writes heartbeats."""

    def __init__(self) -> None:
        self._identity = Identity(ProcessRole.SUPERVISOR)
        self._heard = True

    def is_heard(self) -> bool:
        """Write a heartbeat and return whether that succeeded. Log when that changes."""
        try:
            processes.beat(self._identity)
        except Error as error:
            if self._heard:
                logger.error("supervision waits for the database: %s", str(error).strip())
            self._heard = False
            connections.close_all()
            return False
        if not self._heard:
            logger.warning("the database is back; supervision continues")
        self._heard = True
        return True

    def take_turn(self) -> bool:
        return self.supervise(partial(supervision.take_turn, self._identity))

    def supervise(self, go_round: Callable[[], bool]) -> bool:
        """Run a round and the steps for this host only. Return whether all succeeded."""
        completed = go_round()
        try:
            kill_orphans()
        except Exception:
            logger.exception("the search for processes left behind by lost requests failed")
            completed = False
        if not completed:
            connections.close_all()
        return completed

    def leave(self) -> None:
        """Record that this process ends."""
        try:
            processes.stop(self._identity)
        except Error as error:
            logger.warning("the end of this process could not be stored: %s", str(error).strip())
        connections.close_all()


@contextmanager
def _told_to_stop() -> Iterator[SimpleQueue[int]]:
    """Return a queue that receives the first SIGTERM or SIGINT. The next signal has its default effect."""
    # A signal may arrive while the queue is read. Only a `SimpleQueue` may be used in a handler then.
    signals: SimpleQueue[int] = SimpleQueue()

    def handle(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        signals.put(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
