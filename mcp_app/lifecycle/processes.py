"""Liveness of server and worker processes: one row each, a heartbeat in database time.

A running request names its worker's boot id, so one write every few seconds vouches for all the work of a process.
Refuses to take silence for death where this process cannot be heard itself: it is then the database that is away, or
answers nothing; or where the database's clock was set: then the ages of what it holds say nothing until everybody was
heard again.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

from django.db import Error
from django.db.models import Count, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.lifecycle import boot_ids, clock
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.locks import insistent, transactional
from mcp_app.models import Process
from mcp_app.states import ProcessRole

T = TypeVar("T")

LATELY = 0.75
"""Of `SUPERVISION_INTERVAL`: no process is kept from a round by its own last one, should its turn come early."""


@dataclass(frozen=True, slots=True)
class Identity:
    """This process start: never reused, unlike process ids and host names."""

    role: ProcessRole
    boot_id: UUID = field(default_factory=boot_ids.new)
    hostname: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)


@dataclass(frozen=True, slots=True)
class Vouched:
    """A process as its row speaks for it: heard of so many seconds ago, by the database's clock."""

    identity: Identity
    silent_for: float
    lives: bool


class _Voice:
    """Whether this process is heard, by its own clock: what it asks of the database, and when that took too long."""

    def __init__(self) -> None:
        self._failed_at = float("-inf")
        self._begun: list[float] = []

    @contextmanager
    def raised(self) -> Iterator[None]:
        """A beat: whether it is heard."""
        with self.strained():
            try:
                yield
            except Error:
                self._failed_at = time.monotonic()
                raise

    @contextmanager
    def strained(self) -> Iterator[None]:
        """Anything that waits for the database, and may show that nobody was heard meanwhile."""
        began_at = time.monotonic()
        self._begun.append(began_at)
        try:
            yield
        finally:
            if _is_long(time.monotonic() - began_at):
                self._failed_at = time.monotonic()
            self._begun.remove(began_at)

    def read_clock(self) -> datetime | None:
        """The database's time; None where no process has a row. If it has jumped, no silence is trusted for a while."""
        with self.strained():
            told = Process.objects.annotate(now=Now()).values_list("now", flat=True).first()
        if told is not None and _is_long(abs(clock.note(told))):
            self._failed_at = time.monotonic()
        return told

    @property
    def is_heard(self) -> bool:
        """Now, and for as long as others need to be heard again."""
        now = time.monotonic()
        return now - self._failed_at > settings.LOST_AFTER and not any(_is_long(now - each) for each in self._begun)


def _is_long(seconds: float) -> bool:
    patience: float = settings.LOST_AFTER
    return seconds > patience / 2


_voice = _Voice()


def beat(identity: Identity) -> None:
    """Say that this process lives; the first beat registers it, and one declared lost by mistake is back.

    From the first one on it notices a clock that is set. Raises django.db.Error.
    """
    with _voice.raised():
        _beat(identity)
    if not clock.was_read():
        _voice.read_clock()


def listening() -> AbstractContextManager[None]:
    """For a step that waits for the database: while one takes too long nobody is heard, whom the next calls silent."""
    return _voice.strained()


def share(found: Iterable[T]) -> Iterator[T]:
    """As many of what a step of supervision has found as keep no heart from beating; the next round goes on."""
    until = time.monotonic() + settings.LOST_AFTER / 5
    for each in found:
        yield each
        if time.monotonic() > until:
            break


@insistent
def _beat(identity: Identity) -> None:
    if not Process.objects.filter(boot_id=identity.boot_id).update(heartbeat_at=Now(), stopped_at=None):
        first = Process(boot_id=identity.boot_id, role=identity.role, hostname=identity.hostname, pid=identity.pid)
        Process.objects.bulk_create([first], ignore_conflicts=True)


def begin_round(identity: Identity) -> bool:
    """Whether this process is to supervise: no other began a round lately, or this one tells the others that it does.

    Two that ask at the same moment may both be told so. Raises django.db.Error.
    """
    lately = settings.SUPERVISION_INTERVAL * LATELY
    # What was begun in the future was begun before the clock went back.
    if Process.objects.filter(supervised_at__range=(from_now(-lately), from_now(lately))).exists():
        return False
    if _voice.is_heard:  # else its round calls nobody silent, and one of another process may
        Process.objects.filter(boot_id=identity.boot_id).update(supervised_at=Now())
    return True


@transactional
def stop(identity: Identity) -> None:
    """Say that this process ends by itself."""
    Process.objects.filter(boot_id=identity.boot_id).update(stopped_at=Now())


def any_alive(role: ProcessRole) -> bool:
    """Whether a process of this kind lives; one whose process id is known to be gone does not, however fresh its word.

    Raises django.db.Error.
    """
    around_now = (from_now(-settings.LOST_AFTER), from_now(settings.LOST_AFTER))
    heard_of = Process.objects.filter(role=role, stopped_at__isnull=True, heartbeat_at__range=around_now)
    return any(not boot_ids.is_gone(boot_id, pid) for boot_id, pid in heard_of.values_list("boot_id", "pid"))


def vouched_for(*roles: ProcessRole) -> list[Vouched]:
    """The processes of these kinds that did not say that they stopped, those heard of last first.

    Raises django.db.Error.
    """
    rows = Process.objects.filter(role__in=roles, stopped_at__isnull=True).annotate(now=Now()).order_by("-heartbeat_at")
    found = []
    for row in rows:
        identity = Identity(ProcessRole(row.role), row.boot_id, row.hostname, row.pid)
        silent_for = (row.now - row.heartbeat_at).total_seconds()
        lives = abs(silent_for) <= settings.LOST_AFTER and not boot_ids.is_gone(row.boot_id, row.pid)
        found.append(Vouched(identity, silent_for, lives))
    return found


def count_alive() -> dict[ProcessRole, int]:
    """How many processes of each kind were heard of within `LOST_AFTER` and have not stopped.

    Raises django.db.Error.
    """
    around_now = (from_now(-settings.LOST_AFTER), from_now(settings.LOST_AFTER))
    heard_of = Process.objects.filter(stopped_at__isnull=True, heartbeat_at__range=around_now).order_by()
    found = dict(heard_of.values_list("role").annotate(Count("pk")))
    return {role: found.get(role.value, 0) for role in ProcessRole}


def heard(column: str, role: ProcessRole, *, within: float) -> QuerySet[Process]:
    """For `Exists`: the process named by the outer row's `column`, not stopped and heard of within so many seconds.

    What was heard in the future was heard before the clock went back.
    """
    return _not_stopped(column, role).filter(heartbeat_at__range=(from_now(-within), from_now(within)))


def not_lost(column: str, role: ProcessRole) -> QuerySet[Process]:
    """The same, not stopped and not silent for `LOST_AFTER`; where this process is not heard, none is called silent.

    Silent by now, not by the time at which the database comes to the query: it may answer nothing for a while in
    between, and then everybody was silent. What was heard after both was heard before the clock went back.
    Raises django.db.Error.
    """
    now = _voice.read_clock()
    alive = _not_stopped(column, role)
    if now is None or not _voice.is_heard:
        return alive
    patience = timedelta(seconds=settings.LOST_AFTER)
    not_of_the_future = Q(heartbeat_at__lte=now + patience) | Q(heartbeat_at__lte=from_now(settings.LOST_AFTER))
    return alive.filter(not_of_the_future, heartbeat_at__gte=now - patience)


def _not_stopped(column: str, role: ProcessRole) -> QuerySet[Process]:
    return Process.objects.filter(boot_id=OuterRef(column), role=role, stopped_at__isnull=True)
