"""Calls that wait in a batch for too long, or for nothing: published again, for whoever has time.

In the worker's main process: when a batch has run for longer than its calls were thought to take, and when what ran it
is gone. Those that were claimed are left alone: a row says so. Refuses to keep its thread for longer than one word to
the broker may take; what is not said is supervision's.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle import publishing
from mcp_app.lifecycle.broker import SilentBrokerError
from mcp_app.lifecycle.publishing import BATCH_SECONDS

logger = logging.getLogger(__name__)

After = Callable[[float, Callable[[], None]], None]
"""Does something after so many seconds, in a thread that may use the database. From any thread."""


class Batch(Protocol):
    """Calls that came in one message."""

    @property
    def request_ids(self) -> Iterable[str]: ...

    @property
    def is_active(self) -> bool: ...


class LeftBehind:
    """Looks after the batches of one worker, whose `after` it uses."""

    def __init__(self, after: After) -> None:
        self._after = after
        self._lock = threading.Lock()
        self._begun: deque[tuple[float, Batch]] = deque()
        self._left: set[str] = set()
        self._is_to_look = False
        self._speechless_until = 0.0

    def begun(self, batch: Batch) -> None:
        """Look after one that has begun to run. From any thread."""
        with self._lock:
            self._begun.append((time.monotonic() + BATCH_SECONDS, batch))
        self._look_in(BATCH_SECONDS)

    def broken(self, request_ids: Iterable[str]) -> None:
        """Nothing runs these any more. From any thread."""
        with self._lock:
            self._left.update(request_ids)
        self._after(0, self._publish)

    def _look_in(self, seconds: float) -> None:
        """One look serves all that have begun meanwhile."""
        with self._lock:
            if self._is_to_look or not self._begun:
                return
            self._is_to_look = True
        self._after(seconds, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._is_to_look = False
            due = []
            while self._begun and self._begun[0][0] <= now:
                due.append(self._begun.popleft()[1])
            wait = self._begun[0][0] - now if self._begun else BATCH_SECONDS
            for batch in due:
                if batch.is_active:
                    self._left.update(batch.request_ids)
        self._look_in(wait)
        self._publish()

    def _publish(self) -> None:
        with self._lock:
            left, self._left = self._left, set()
        if not left or time.monotonic() < self._speechless_until:
            return
        try:
            publishing.send_unclaimed([UUID(each) for each in left])
        except SilentBrokerError as error:
            self._speechless_until = time.monotonic() + settings.PUBLISH_TIMEOUT
            logger.error("%d calls wait for supervision to publish them again: %s", len(left), error)
