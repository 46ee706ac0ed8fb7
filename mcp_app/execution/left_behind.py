"""Calls that wait in a batch for too long, or for nothing: published again, for whoever has time.

In the worker's main process: when a batch has run for longer than its calls were thought to take, and when what ran it
is gone. Those that were claimed are left alone: a row says so. Of those that have ended Celery is told, and who waits
for them; once more a while later, as what began late may have kept the end of a call to itself since. Refuses to keep
its thread for longer than one word to the broker may take; what is not said is supervision's.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol
from uuid import UUID

from mcp_app.conf import settings
from mcp_app.lifecycle import celery_results, publishing, wakeups
from mcp_app.lifecycle.broker import SilentBrokerError
from mcp_app.models import Request
from mcp_app.states import Status

logger = logging.getLogger(__name__)

HELD_UP: Final = 2 * publishing.BATCH_SECONDS
"""Seconds after which the calls of a batch do not wait any longer for those before them."""

After = Callable[[float, Callable[[], None]], None]
"""Does something after so many seconds, in one thread, that may use the database. From any thread."""


class Batch(Protocol):
    """Calls that came in one message."""

    @property
    def request_ids(self) -> Iterable[str]: ...

    @property
    def is_active(self) -> bool: ...


class LeftBehind:
    """Looks after the batches of one worker, whose `after` it uses.

    Has no lock: Celery calls from signal handlers, too, which may have interrupted the thread that holds it. Who comes
    at the same moment costs one look more.
    """

    def __init__(self, after: After) -> None:
        self._after = after
        self._begun: deque[tuple[float, Batch, bool]] = deque()
        """When each is due, and whether it has been looked at."""
        self._left: deque[str] = deque()
        self._is_to_look = False
        self._speechless_until = 0.0

    def begun(self, batch: Batch) -> None:
        """Look after one that has begun to run. From any thread."""
        self._begun.append((time.monotonic() + HELD_UP, batch, False))
        if not self._is_to_look:  # one look serves all that are due then
            self._look_in(HELD_UP)

    def broken(self, request_ids: Iterable[str]) -> None:
        """Nothing runs these any more. From any thread."""
        self._left.extend(request_ids)
        self._after(0, self._publish)

    def _look_in(self, seconds: float) -> None:
        self._is_to_look = True
        self._after(seconds, self._look)

    def _look(self) -> None:
        self._is_to_look = False  # before it looks: what begins after that is looked for again
        now = time.monotonic()
        ended: list[UUID] = []
        while self._begun and self._begun[0][0] <= now:
            _, batch, is_known = self._begun.popleft()
            if is_known:
                ended.extend(UUID(each) for each in batch.request_ids if batch.is_active)
            elif batch.is_active:
                self._left.extend(batch.request_ids)
                self._begun.append((now + HELD_UP, batch, True))
        if self._begun:
            self._look_in(self._begun[0][0] - now)
        self._publish()
        if ended:
            _wake(ended)
            celery_results.store_missing(ended)

    def _publish(self) -> None:
        left = [UUID(each) for each in {self._left.popleft() for _ in range(len(self._left))}]
        if not left:
            return
        _wake(left)
        if time.monotonic() >= self._speechless_until:
            self._send(left)
        celery_results.store_missing(left)

    def _send(self, left: list[UUID]) -> None:
        try:
            publishing.send_unclaimed(left)
        except SilentBrokerError as error:
            self._speechless_until = time.monotonic() + settings.PUBLISH_TIMEOUT
            logger.error("%d calls wait for supervision to publish them again: %s", len(left), error)


def _wake(request_ids: list[UUID]) -> None:
    """Hint to those who wait for what has ended or asks: those hints wait for a call that runs on, or went with it."""
    try:
        moved = Request.objects.filter(pk__in=request_ids).exclude(status__in=(Status.QUEUED, Status.RUNNING))
        wakeups.wake_those(list(moved.values_list("server", "pk")))
    except Exception as error:
        logger.warning("those who wait for %d requests look again by themselves: %s", len(request_ids), error)
