"""Fewer queries for supervision while nothing happens at the site.

A round takes more than 20 queries. All urgent steps of a round act on a few kinds of rows, such as
open requests and sessions. If there are none, the remaining steps only delete rows that are a day
old. So an idle process replaces its rounds by a single query every few seconds, and by a full round
every `CHORES_SECONDS`.

This delays nothing that matters. The pause is at most `LOST_AFTER`, so a new request is noticed
before it could count as lost. It is also at most `LONGEST_REST`, so calls that begin and end during
the pause are counted and logged soon. A process that holds messages or runs tools is never idle.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from django.db import Error
from django.db.models import Exists, Q

from mcp_app.conf import settings
from mcp_app.lifecycle.audit import sealing
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.statistics import tallies
from mcp_app.models import ListenStream, Process, ReadQuestion, Request, Session
from mcp_app.states import OPEN

logger = logging.getLogger(__name__)

LONGEST_REST: Final = 10.0
"""The longest time, in seconds, without a query."""
CHORES_SECONDS: Final = 600.0
"""How often an idle process carries out a full round, to delete old rows and add up ended days."""


def is_site_idle() -> bool:
    """Return whether there are no rows that supervision must act on soon.

    Takes one statement. It needs at least one `Process` row; the calling process has one. Raises
    `django.db.Error`.
    """
    at_work = (
        Request.objects.filter(status__in=OPEN),
        tallies.uncounted(),
        Request.objects.filter(unredacted__isnull=False),
        sealing.final_attempts(),
        Session.objects.all(),
        ListenStream.objects.all(),
        ReadQuestion.objects.all(),
    )
    something = Q()
    for rows in at_work:
        something |= Q(Exists(rows.order_by()))
    with processes.listening():
        return not Process.objects.filter(something).exists()


class SupervisionTurns:
    """The timing of one process's rounds: one at each turn, unless the site is idle."""

    def __init__(self, supervise: Callable[[], object], holds_work: Callable[[], bool] = lambda: False) -> None:
        self._supervise = supervise
        self._holds_work = holds_work
        self._idle_until = float("-inf")
        self._full_at = float("-inf")

    @property
    def is_resting(self) -> bool:
        """Whether the site was idle at the last query and the next query is not due yet."""
        return time.monotonic() < self._idle_until and not self._holds_work()

    def is_beat_due(self, beaten_at: float) -> bool:
        """Return whether a process must write its heartbeat at this turn.

        `beaten_at` is the time of its last heartbeat (`time.monotonic`). An idle process writes
        fewer heartbeats, but enough of them that no other process takes it for dead.
        """
        silent_seconds = time.monotonic() - beaten_at + settings.HEARTBEAT_INTERVAL
        return not self.is_resting or silent_seconds > settings.LOST_AFTER / 2

    def take(self) -> bool:
        """Carry out a round unless the site is idle. Return whether there was a round."""
        if self.is_resting:
            return False
        self._idle_until = float("-inf")
        now = time.monotonic()
        if now - self._full_at < CHORES_SECONDS and not self._holds_work() and self._find_idle():
            self._idle_until = now + min(settings.LOST_AFTER, LONGEST_REST)
            return False
        self._full_at = now
        self._supervise()
        return True

    def _find_idle(self) -> bool:
        try:
            return is_site_idle()
        except Error as error:
            logger.error("supervision could not read whether there is work: %s", str(error).strip())
            return False
