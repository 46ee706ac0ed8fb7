"""The states of a request: its status, the legal transitions, causes and stages of stopping.

All statuses, causes, stages and policies are defined here. `TRANSITIONS` is the whole state
machine; only `lifecycle.requests.transitions` changes a status. Nothing in this module reads a row
or a clock.
"""

from types import MappingProxyType
from typing import Final

from django.db.models import IntegerChoices, TextChoices
from django.utils.translation import gettext_lazy as _


class Status(TextChoices):
    """The status of a request. `cancel_requested_at` is independent of it, and not a status."""

    QUEUED = "queued", _("queued")
    """→ RUNNING when claimed, CANCELLED when cancelled, FAILED if its message could not be sent or read."""
    RUNNING = "running", _("running")
    """→ COMPLETED, FAILED, CANCELLED or LOST, or INPUT_REQUIRED when the tool asks its client."""
    INPUT_REQUIRED = "input_required", _("input required")
    """Waits for answers, without a worker. → QUEUED when answered, CANCELLED or FAILED."""
    COMPLETED = "completed", _("completed")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")
    """Set only when the work is proved to have stopped."""
    LOST = "lost", _("lost")
    """Its worker died, or its heartbeats stopped. It never runs again."""


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
    """Return the statuses that have a transition to `target`."""
    return frozenset(status for status, following in TRANSITIONS.items() if target in following)


class CancelPolicy(TextChoices):
    """The last stage that the cancellation of a tool may reach."""

    COOPERATIVE = "cooperative", _("cooperative only")
    """The tool is only notified, also at its time limit. For work that must not stop half-done."""
    INTERRUPT = "interrupt", _("interrupt")
    """After the cooperative grace, an exception is raised inside the tool."""
    KILL = "kill", _("kill")
    """After the hard grace, the process that runs the tool is killed as well. Only the `prefork`
    pool can do this."""


class TaskMode(TextChoices):
    """Whether a call becomes a task, if its client supports the tasks extension.

    Source: ext-tasks specification/draft/tasks.
    """

    NEVER = "never", _("never")
    WHEN_SLOW = "when_slow", _("when slow")
    """After its client has waited for `task_after` seconds. Questions before that are asked as in
    any call."""
    ALWAYS = "always", _("always")
    """At once. A 2026-07-28 client that does not declare the extension gets an error. Callers that
    cannot have tasks wait for the result: legacy clients, `mcp call`, and tools that start the
    call.
    """


class Stage(IntegerChoices):
    """The stage that the cancellation of a request has reached. It never goes back."""

    NONE = 0, _("none")
    COOPERATIVE = 1, _("cooperative")
    INTERRUPT = 2, _("interrupt")
    KILL = 3, _("kill")


UNSTOPPABLE: Final = "unstoppable"
"""The cause in the error, and the stage in the timeline, of a request that could not be stopped.

Its tool has ignored all stages, in a pool that cannot kill. It is not a `Stage`, because the tool
may still stop, and the request then records the stage that stopped it.
"""


class Cause(TextChoices):
    """Why a cancellation was requested. (The `cause` in `Request.error` is the cause of a failure.)

    To add a cause, add the function that asks for it, and:

    - its message for clients, in `lifecycle.requests.observation` (`test_endings` checks it),
    - the choices of four fields in `migrations/0001_initial.py` (`makemigrations --check`),
    - entries in `docs/reference/glossary.md`, in the table of the export in `docs/how-to/audit.md`, and in the table
      of `docs/explanation/architecture.md` with the function (`test_glossary` checks them),
    - a word in the list of `CHANGELOG.md`, which no test checks.

    The admin, metrics and statistics use the label, and need no change.
    """

    DISCONNECT = "disconnect", _("client disconnected")
    CLIENT = "client", _("client asked")
    ADMIN = "admin", _("administrator")
    DEADLINE = "deadline", _("deadline passed")
    SHUTDOWN = "shutdown", _("shutdown")
    ABANDONED = "abandoned", _("abandoned")
    LOST_SERVER = "lost_server", _("server lost")
    REVOKED = "revoked", _("access revoked")
    """The site's authenticator no longer accepts the caller that is waiting for the result."""
    PARENT = "parent", _("the call that started it")
    """The run that started this call was asked to stop, has ended, or asked for it."""


class Outcome(TextChoices):
    """The outcome of one attempt to cancel."""

    ACCEPTED = "accepted", _("accepted")
    DUPLICATE = "duplicate", _("duplicate")
    """Cancellation had been requested before; the first cause stays."""
    TOO_LATE = "too_late", _("too late")
    """The request had ended, or its tool completed before it could be stopped."""
    UNKNOWN = "unknown", _("unknown request")
    DENIED = "denied", _("denied")
    """The caller does not own the request, or the user has no permission to cancel.

    A caller gets the same response as for UNKNOWN.
    """


class EventKind(TextChoices):
    """What an event of a request records."""

    TRANSITION = "transition", _("transition")
    CANCEL = "cancel", _("cancel requested")
    STAGE = "stage", _("cancellation stage")
    PROGRESS = "progress", _("progress")
    LOG = "log", _("log line")
    INPUT = "input", _("input")
    """A question to the client or its user, or an answer."""
    NOTE = "note", _("note")


class ProcessRole(TextChoices):
    """The kind of process that a `Process` row stands for."""

    SERVER = "server", _("server")
    WORKER = "worker", _("worker")
    SUPERVISOR = "supervisor", _("supervisor")


class Measure(TextChoices):
    """What a tally measures of ended calls."""

    RUN = "run", _("run")
    """How long the tool ran. Counts all calls, including those that did not run."""
    WAIT = "wait", _("wait for a worker")
    """How long the call waited for a worker. Counts the calls that were claimed."""
    STOP = "stop", _("stop")
    """The time from the request to cancel to the end. Counts cancelled calls."""
