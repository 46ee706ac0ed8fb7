"""Liveness of server and worker processes: one row each, a heartbeat in database time.

A running request names its worker's boot id, so one write every few seconds vouches for all the work of a process.
"""

import os
import socket
import uuid
from dataclasses import dataclass, field
from uuid import UUID

import psutil
from django.db.models import OuterRef, QuerySet
from django.db.models.functions import Now

from mcp_app.conf import settings
from mcp_app.lifecycle.clock import from_now
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import Process
from mcp_app.states import ProcessRole


@dataclass(frozen=True, slots=True)
class Identity:
    """This process start: never reused, unlike process ids and host names."""

    role: ProcessRole
    boot_id: UUID = field(default_factory=uuid.uuid4)
    hostname: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)


@transactional
def beat(identity: Identity) -> None:
    """Say that this process lives; the first beat registers it, and one declared lost by mistake is back."""
    if not Process.objects.filter(boot_id=identity.boot_id).update(heartbeat_at=Now(), stopped_at=None):
        first = Process(boot_id=identity.boot_id, role=identity.role, hostname=identity.hostname, pid=identity.pid)
        Process.objects.bulk_create([first], ignore_conflicts=True)


@transactional
def stop(identity: Identity) -> None:
    """Say that this process ends by itself."""
    Process.objects.filter(boot_id=identity.boot_id).update(stopped_at=Now())


def any_alive(role: ProcessRole) -> bool:
    """Whether a process of this kind lives; one of this host whose process id is gone does not, however fresh its word.

    Raises django.db.Error.
    """
    heard_of = Process.objects.filter(
        role=role, stopped_at__isnull=True, heartbeat_at__gte=from_now(-settings.LOST_AFTER)
    )
    here = socket.gethostname()
    return any(host != here or psutil.pid_exists(pid) for host, pid in heard_of.values_list("hostname", "pid"))


def heard(column: str, role: ProcessRole, *, within: float) -> QuerySet[Process]:
    """For `Exists`: the process named by the outer row's `column`, not stopped and heard of within so many seconds."""
    return Process.objects.filter(
        boot_id=OuterRef(column), role=role, stopped_at__isnull=True, heartbeat_at__gte=from_now(-within)
    )
