"""Supervision of a site where nothing happens: one question now and then, instead of every step's.

All that a step acts on soon is in a few kinds of rows; where there are none, only what is old by a day is left to be
forgotten. Refuses to find anything late: what is stored while it is quiet is seen before it can be lost (`LOST_AFTER`),
and what began and ended meanwhile is counted and logged after some seconds, however patient a site is; who holds work
does not call it quiet.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from django.db import Error
from django.db.models import Exists, Q

from mcp_app.conf import settings
from mcp_app.lifecycle import processes, sealing, tallies
from mcp_app.models import ListenStream, Process, ReadQuestion, Request, Session
from mcp_app.states import OPEN

logger = logging.getLogger(__name__)

LONGEST_REST: Final = 10.0
"""Seconds for which nobody looks again, at most."""
CHORES_SECONDS: Final = 600.0
"""How often a round is made though nothing happens: it forgets what is old, and adds days that are over."""


def is_quiet() -> bool:
    """Whether no row is there that supervision acts on soon. One statement; a process asks that has a row itself.

    Raises django.db.Error.
    """
    at_work = (
        Request.objects.filter(status__in=OPEN),
        tallies.uncounted(),
        Request.objects.filter(originals__isnull=False),
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


class Rounds:
    """When one process supervises: at each of its turns, but where it is quiet."""

    def __init__(self, supervise: Callable[[], object], holds_work: Callable[[], bool] = lambda: False) -> None:
        self._supervise = supervise
        self._holds_work = holds_work
        self._quiet_until = float("-inf")
        self._full_at = float("-inf")

    @property
    def rests(self) -> bool:
        """Whether it was quiet when somebody looked last, and need not be looked at yet."""
        return time.monotonic() < self._quiet_until and not self._holds_work()

    def is_beat_due(self, beaten_at: float) -> bool:
        """Whether a process that beat its heart then (`time.monotonic`) is to do so at this turn.

        Where it rests, as seldom as nobody can take it for lost, nor its next call's client for unattended.
        """
        return not self.rests or time.monotonic() - beaten_at + settings.HEARTBEAT_INTERVAL > settings.LOST_AFTER / 2

    def take(self) -> bool:
        """A turn: supervise, or see that it is quiet, or rest. Whether a round was made."""
        if self.rests:
            return False
        self._quiet_until = float("-inf")
        now = time.monotonic()
        if now - self._full_at < CHORES_SECONDS and not self._holds_work() and self._finds_it_quiet():
            self._quiet_until = now + min(settings.LOST_AFTER, LONGEST_REST)
            return False
        self._full_at = now
        self._supervise()
        return True

    def _finds_it_quiet(self) -> bool:
        try:
            return is_quiet()
        except Error as error:
            logger.error("whether there is anything to be done cannot be read: %s", str(error).strip())
            return False
