"""Which server and worker processes are alive: one row each, with a heartbeat in database time.

Theory of operation
-------------------

1. Each process start has a random boot id. Requests name the boot ids of their server and worker, so that one heartbeat
   every few seconds covers all calls of a process.
2. A process without a heartbeat for `LOST_AFTER` counts as dead, and supervision closes its requests.
3. A process that cannot write its own heartbeat must not declare others dead: the database may be away, or may not
   answer, and then no process can write one. `_OwnLiveness` notices slow and failed queries, and suspends detection
   until `LOST_AFTER` has passed without any.
4. The same holds after the database's clock was set, because all ages are wrong until every process has written a new
   heartbeat. The clock is compared with this process's monotonic clock.
5. On its own host a process can also see that another one has ended, from its process id (`is_gone`). The node of a
   boot id names the pid namespace, because each container numbers its processes from 1.
"""

import hashlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

import psutil
from django.db import Error
from django.db.models import Count, OuterRef, Q, QuerySet

from mcp_app.conf import settings
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.lifecycle.database.retries import insistent, transactional
from mcp_app.models import Process
from mcp_app.models.utc_date_time import Now
from mcp_app.states import ProcessRole

NODE_BITS = 48
_KERNEL_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_STAT_BYTES = 256
"""More than the fields before the state: the process id and the name of the program."""
_ENDED = frozenset({b"Z", b"X"})
"""States of processes that have ended. A zombie waits for its parent to read its exit status."""


def new() -> UUID:
    """Return a boot id for a process that starts here."""
    return UUID(int=uuid4().int >> NODE_BITS << NODE_BITS | _node())


def is_numbered_here(boot_id: UUID) -> bool:
    """Whether that process has its id from the pid namespace of this process."""
    return boot_id.node == _node()


def is_gone(boot_id: UUID, pid: int) -> bool:
    """Whether the process is known to have ended: its id is from this pid namespace, and not in use."""
    return is_numbered_here(boot_id) and has_ended(pid)


def has_ended(pid: int) -> bool:
    """Return whether no process of this pid namespace with this id is running. A zombie is not."""
    try:
        # Read directly, because a worker calls this before each claim and psutil takes three times as long.
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            return stat.read(_STAT_BYTES).rpartition(b") ")[2][:1] in _ENDED
    except OSError:  # it has ended, or is hidden, or this is not Linux
        pass
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


@cache
def _node() -> int:
    """Return a number for the pid namespace of this process and this boot of its kernel."""
    digest = hashlib.sha256(_numbering().encode()).digest()
    return int.from_bytes(digest[: NODE_BITS // 8])


def _numbering() -> str:
    if sys.platform != "linux":
        return socket.gethostname()
    try:
        return f"{_KERNEL_BOOT_ID.read_text('ascii')}/{os.stat(_PID_NAMESPACE).st_ino}"
    except OSError:  # hidden by a sandbox, so that no other process id is known to be from here
        return secrets.token_hex()


T = TypeVar("T")

LATELY = 0.75
"""The part of `SUPERVISION_INTERVAL` for which a round counts as recent. It is less than 1, so that a process whose
timer is early is not kept from a round by its own last one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One start of a process. Boot ids are never reused, unlike process ids and host names."""

    role: ProcessRole
    boot_id: UUID = field(default_factory=new)
    hostname: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)


@dataclass(frozen=True, slots=True)
class KnownProcess:
    """A process according to its row. `silent_for` is in seconds, by the database's clock."""

    identity: Identity
    silent_for: float
    lives: bool


class _OwnLiveness:
    """Whether this process can write its own heartbeats. Otherwise it must not declare others dead."""

    def __init__(self) -> None:
        self._failed_at = float("-inf")
        self._begun: list[float] = []
        self.jump = 0.0
        """Seconds by which the database's clock was set, until all deadlines have been moved."""

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Watch a heartbeat. A failed one suspends detection."""
        with self.observed():
            try:
                yield
            except Error:
                self._failed_at = time.monotonic()
                raise

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Watch a step that waits for the database. A slow one suspends detection."""
        began_at = time.monotonic()
        self._begun.append(began_at)
        try:
            yield
        finally:
            if _is_long(time.monotonic() - began_at):
                self._failed_at = time.monotonic()
            self._begun.remove(began_at)

    def read_clock(self) -> datetime | None:
        """Read the database's time, or `None` if no process has a row. If the clock was set, suspend detection."""
        with self.observed():
            told = Process.objects.annotate(now=Now()).values_list("now", flat=True).first()
        if told is not None and _is_long(abs(jump := clock.note(told))):
            self._failed_at = time.monotonic()
            self.jump += jump
        return told

    @property
    def can_detect(self) -> bool:
        """Whether heartbeats could be written for the last `LOST_AFTER`, so that silent processes are dead."""
        now = time.monotonic()
        return now - self._failed_at > settings.LOST_AFTER and not any(_is_long(now - each) for each in self._begun)


def _is_long(seconds: float) -> bool:
    patience: float = settings.LOST_AFTER
    return seconds > patience / 2


_own = _OwnLiveness()


def beat(identity: Identity, queues: Sequence[str] = ()) -> None:
    """Write a heartbeat. The first one registers the process, and one that was declared lost by mistake is back.

    `queues` are the queues that a worker consumes. Raises `django.db.Error`.
    """
    with _own.heartbeat():
        _beat(identity, list(queues))
    if not clock.was_read():
        _own.read_clock()


def read_jump() -> float:
    """Return the seconds by which the database's clock was set since `forget_jump`. Raises `django.db.Error`."""
    _own.read_clock()
    return _own.jump


def forget_jump() -> None:
    """Note that all deadlines have been moved by the jump of the database's clock."""
    _own.jump = 0.0


def listening() -> AbstractContextManager[None]:
    """Return a context for a step that waits for the database.

    A slow step suspends the detection of dead processes, because heartbeats may not have been written meanwhile.
    """
    return _own.observed()


def share(found: Iterable[T]) -> Iterator[T]:
    """Yield items until a fifth of `LOST_AFTER` has passed, so that supervision does not delay the heartbeat."""
    until = time.monotonic() + settings.LOST_AFTER / 5
    for each in found:
        yield each
        if time.monotonic() > until:
            break


@insistent
def _beat(identity: Identity, queues: list[str]) -> None:
    row = Process.objects.filter(boot_id=identity.boot_id)
    if not row.update(heartbeat_at=Now(), stopped_at=None, queues=queues):
        known = {"role": identity.role, "hostname": identity.hostname, "pid": identity.pid, "queues": queues}
        Process.objects.bulk_create([Process(boot_id=identity.boot_id, **known)], ignore_conflicts=True)


def begin_round(identity: Identity) -> bool:
    """Whether this process should supervise now, because no other process has begun a round recently.

    If so, records it for the others. Two processes may begin at the same moment. Raises `django.db.Error`.
    """
    lately = settings.SUPERVISION_INTERVAL * LATELY
    # A round that began in the future began before the clock was set back.
    if Process.objects.filter(supervised_at__range=(from_now(-lately), from_now(lately))).exists():
        return False
    if _own.can_detect:  # otherwise this round detects no dead process, and another one may
        Process.objects.filter(boot_id=identity.boot_id).update(supervised_at=Now())
    return True


@transactional
def stop(identity: Identity) -> None:
    """Record that this process ends."""
    Process.objects.filter(boot_id=identity.boot_id).update(stopped_at=Now())


def any_alive(role: ProcessRole) -> bool:
    """Whether a process of this kind is alive. Raises `django.db.Error`.

    A process whose id is known to be unused is dead, however recent its heartbeat.
    """
    return any(not is_gone(boot_id, pid) for boot_id, pid in _heard_of(role).values_list("boot_id", "pid"))


def consumed_queues() -> set[str] | None:
    """Return the queues that live workers consume, or `None` if heartbeats could not be written meanwhile.

    Raises `django.db.Error`.
    """
    workers = _heard_of(ProcessRole.WORKER).values_list("boot_id", "pid", "queues")
    consumed = {queue for boot_id, pid, queues in workers if not is_gone(boot_id, pid) for queue in queues}
    return consumed if _own.can_detect else None


def _heard_of(role: ProcessRole) -> QuerySet[Process]:
    around_now = (from_now(-settings.LOST_AFTER), from_now(settings.LOST_AFTER))
    return Process.objects.filter(role=role, stopped_at__isnull=True, heartbeat_at__range=around_now)


def vouched_for(*roles: ProcessRole) -> list[KnownProcess]:
    """Return the processes of these kinds that have not ended properly, the most recent heartbeats first.

    Raises `django.db.Error`.
    """
    rows = Process.objects.filter(role__in=roles, stopped_at__isnull=True).annotate(now=Now()).order_by("-heartbeat_at")
    found = []
    for row in rows:
        identity = Identity(ProcessRole(row.role), row.boot_id, row.hostname, row.pid)
        silent_for = (row.now - row.heartbeat_at).total_seconds()
        lives = abs(silent_for) <= settings.LOST_AFTER and not is_gone(row.boot_id, row.pid)
        found.append(KnownProcess(identity, silent_for, lives))
    return found


def unstopped_here(role: ProcessRole) -> list[Identity]:
    """Return the processes of this kind in this pid namespace that have not ended properly, dead or alive.

    Raises `django.db.Error`.
    """
    rows = Process.objects.filter(role=role, stopped_at__isnull=True)
    return [Identity(role, row.boot_id, row.hostname, row.pid) for row in rows if is_numbered_here(row.boot_id)]


def count_alive() -> dict[ProcessRole, int]:
    """Count the processes of each kind with a heartbeat within `LOST_AFTER`. Raises `django.db.Error`."""
    around_now = (from_now(-settings.LOST_AFTER), from_now(settings.LOST_AFTER))
    heard_of = Process.objects.filter(stopped_at__isnull=True, heartbeat_at__range=around_now).order_by()
    found = dict(heard_of.values_list("role").annotate(Count("pk")))
    return {role: found.get(role.value, 0) for role in ProcessRole}


def recently_alive(column: str, role: ProcessRole, *, within: float) -> QuerySet[Process]:
    """Return a query for `Exists`: the process in the outer row's `column`, with a heartbeat in the last seconds.

    A heartbeat in the future was written before the clock was set back.
    """
    return _not_stopped(column, role).filter(heartbeat_at__range=(from_now(-within), from_now(within)))


def not_lost(column: str, role: ProcessRole) -> QuerySet[Process]:
    """Return a query for `Exists`: the process in the outer row's `column`, unless it counts as dead.

    While detection is suspended, no process counts as dead. The age is computed for the time of this call and not for
    the time of the query: a database that hangs in between would make all heartbeats old. Raises `django.db.Error`.
    """
    now = _own.read_clock()
    alive = _not_stopped(column, role)
    if now is None or not _own.can_detect:
        return alive
    patience = timedelta(seconds=settings.LOST_AFTER)
    not_of_the_future = Q(heartbeat_at__lte=now + patience) | Q(heartbeat_at__lte=from_now(settings.LOST_AFTER))
    return alive.filter(not_of_the_future, heartbeat_at__gte=now - patience)


def _not_stopped(column: str, role: ProcessRole) -> QuerySet[Process]:
    return Process.objects.filter(boot_id=OuterRef(column), role=role, stopped_at__isnull=True)
