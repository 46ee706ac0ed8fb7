"""The words for what a request can be: its status, why and how far it was cancelled, and the legal steps between.

House rules: every status, cause, stage and policy is named here and nowhere else; the table `TRANSITIONS` is the whole
state machine, and `lifecycle.transitions` is the only code that walks it. Nothing here reads a row or a clock.
"""

from types import MappingProxyType
from typing import Final

from django.db.models import IntegerChoices, TextChoices
from django.utils.translation import gettext_lazy as _


class Status(TextChoices):
    """Where a request is. Cancellation is a second axis (`Request.cancel_requested_at`), never a status."""

    QUEUED = "queued", _("queued")
    """→ RUNNING when a worker claims it; → CANCELLED by `cancel()` itself; → FAILED when the broker refuses it."""
    RUNNING = "running", _("running")
    """→ COMPLETED, FAILED, CANCELLED or LOST; → INPUT_REQUIRED when the tool asks its user."""
    INPUT_REQUIRED = "input_required", _("input required")
    """Waits for a person without a worker. → QUEUED when answered; → CANCELLED, FAILED."""
    COMPLETED = "completed", _("completed")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")
    """Only written when the work is proved stopped."""
    LOST = "lost", _("lost")
    """Its worker died or went silent; it is never run again."""


TRANSITIONS: Final = MappingProxyType(
    {
        Status.QUEUED: frozenset({Status.RUNNING, Status.CANCELLED, Status.FAILED}),
        Status.RUNNING: frozenset(
            {Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.LOST, Status.INPUT_REQUIRED}
        ),
        Status.INPUT_REQUIRED: frozenset({Status.QUEUED, Status.CANCELLED, Status.FAILED}),
        Status.COMPLETED: frozenset(),
        Status.FAILED: frozenset(),
        Status.CANCELLED: frozenset(),
        Status.LOST: frozenset(),
    }
)

TERMINAL: Final = frozenset(status for status, following in TRANSITIONS.items() if not following)
OPEN: Final = frozenset(Status) - TERMINAL


def sources(target: Status) -> frozenset[Status]:
    """The statuses from which `target` may be reached."""
    return frozenset(status for status, following in TRANSITIONS.items() if target in following)


class CancelPolicy(TextChoices):
    """How far the cancellation ladder may go with a tool."""

    COOPERATIVE = "cooperative", _("cooperative only")
    """The tool is told and never cut: for work that must not end half-done."""
    INTERRUPT = "interrupt", _("interrupt")
    """An exception is raised inside the tool after its cooperative grace."""
    KILL = "kill", _("kill")
    """As INTERRUPT, and its worker process is killed after the hard grace."""


class TaskMode(TextChoices):
    """Whether a call of a tool becomes a task of the tasks extension, where its client knows the extension."""

    NEVER = "never", _("never")
    WHEN_SLOW = "when_slow", _("when slow")
    """Once its client has waited for some time; what it asks before is asked as in any call."""
    ALWAYS = "always", _("always")
    """At once; a client of 2026-07-28 that does not declare the extension is refused. Who can have no task waits: a
    client of an older revision, `mcp call`, a tool that starts it."""


class Stage(IntegerChoices):
    """How far the ladder went with one request; it only grows."""

    NONE = 0, _("none")
    COOPERATIVE = 1, _("cooperative")
    INTERRUPT = 2, _("interrupt")
    KILL = 3, _("kill")


UNSTOPPABLE: Final = "unstoppable"
"""What a running request is that outlived the ladder where nothing can be killed: the cause in its error, and the stage
that its timeline tells. No `Stage`: the work may still be stopped, and then says how."""


class Cause(TextChoices):
    """Why a cancellation was asked for."""

    DISCONNECT = "disconnect", _("client disconnected")
    CLIENT = "client", _("client asked")
    ADMIN = "admin", _("administrator")
    DEADLINE = "deadline", _("deadline passed")
    SHUTDOWN = "shutdown", _("shutdown")
    ABANDONED = "abandoned", _("abandoned")
    LOST_SERVER = "lost_server", _("server lost")
    PARENT = "parent", _("the call that started it")
    """Its run is to stop, or is over: what a tool starts does not outlive the run that started it."""


class Outcome(TextChoices):
    """What became of one attempt to cancel."""

    ACCEPTED = "accepted", _("accepted")
    DUPLICATE = "duplicate", _("duplicate")
    """Cancellation had been requested before; the first cause stays."""
    TOO_LATE = "too_late", _("too late")
    """The request had reached its end, or reached it before the stop landed."""
    UNKNOWN = "unknown", _("unknown request")
    DENIED = "denied", _("denied")
    """The request belongs to somebody else, and the asker is told the same as for UNKNOWN; or a user may not cancel."""


class EventKind(TextChoices):
    """What one event row of a request records."""

    TRANSITION = "transition", _("transition")
    CANCEL = "cancel", _("cancel requested")
    STAGE = "stage", _("cancellation stage")
    PROGRESS = "progress", _("progress")
    LOG = "log", _("log line")
    INPUT = "input", _("input")
    """What was asked of the client and its user, or what they answered."""
    NOTE = "note", _("note")


class ProcessRole(TextChoices):
    """What kind of process a liveness row speaks for."""

    SERVER = "server", _("server")
    WORKER = "worker", _("worker")
    SUPERVISOR = "supervisor", _("supervisor")


class Measure(TextChoices):
    """What a tally counts of ended calls."""

    RUN = "run", _("run")
    """All of them, by how long the tool ran, if it did."""
    WAIT = "wait", _("wait for a worker")
    """Those that ran."""
    STOP = "stop", _("stop")
    """Those that were cancelled, from the request for it to the end."""
