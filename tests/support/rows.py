"""Creates requests in a given state by calling the lifecycle itself, and reads their rows."""

import time
from uuid import UUID, uuid4

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.cancellation import cancellation
from mcp_app.lifecycle.input import input_rounds
from mcp_app.lifecycle.input.input_rounds import Retry
from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.processes import Identity
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.submission import Submission
from mcp_app.models import Cancellation, Request, RequestEvent
from mcp_app.states import CancelPolicy, Cause, EventKind, Outcome, ProcessRole, Status

OWNER = Principal(issuer="site", subject="7", client_id="editor", label="Ada", user_id="7")
STRANGER = Principal(issuer="site", subject="8", client_id="editor", label="Eve", user_id="8")
ADA = Actor("Ada", "192.0.2.7")
MILLISECOND = 1_000_000
"""In nanoseconds."""
RESULT = {"content": [{"type": "text", "text": "done"}]}


def alive(role: ProcessRole) -> UUID:
    """Return the boot id of a process that has just recorded a heartbeat."""
    identity = Identity(role)
    processes.beat(identity)
    return identity.boot_id


def submission(**changes) -> Submission:
    return Submission(
        **{
            "jsonrpc_id": 0,
            "tool": "dig",
            "arguments": {"depth": 3},
            "protocol_version": "2026-07-28",
            "principal": OWNER,
            "cancel_policy": CancelPolicy.KILL,
            "cooperative_grace": 0.1,
            "hard_grace": 0.5,
            "time_limit": 60.0,
            "queue": f"tests-{uuid4().hex}",
        }
        | changes
    )


def queued(**changes) -> Request:
    """Return a queued request, once the millisecond in which it was stored has passed.

    SQLite stores times in milliseconds, so any request that is made afterwards has a later time.
    """
    row = transitions.submit(submission(**changes))
    stored_in = time.time_ns() // MILLISECOND
    while time.time_ns() // MILLISECOND == stored_in:
        pass
    return row


def running(worker: UUID, **changes) -> Request:
    row = transitions.claim(queued(**changes).pk, worker=worker, pid=4711)
    assert row is not None
    return row


def cancel(row: Request, cause: Cause = Cause.CLIENT, reason: str = "", **options) -> Outcome:
    return cancellation.cancel(row.pk, cause=cause, actor=options.pop("actor", ADA), reason=reason, **options)


def stopping(worker: UUID, cause: Cause = Cause.CLIENT, reason: str = "", **changes) -> Request:
    """Return a running request whose cancellation was accepted."""
    row = running(worker, **changes)
    assert cancel(row, cause, reason) == Outcome.ACCEPTED
    return fresh(row)


QUESTIONS = {"name": {"method": "elicitation/create", "params": {"message": "Your name?"}}}
ADA_SAYS = {"name": {"action": "accept", "content": {"name": "Ada"}}}


def asking(worker: UUID, **changes) -> Request:
    """Return a request that asks its client for input for the first time."""
    row = running(worker, **changes)
    assert input_rounds.ask(row.pk, QUESTIONS, worker=worker) == Status.INPUT_REQUIRED
    return fresh(row)


def answer(row: Request, number: int = 1, answers=ADA_SAYS, again=None, **changes) -> Request | None:
    retry = Retry(**{"jsonrpc_id": "retry"} | changes)
    return input_rounds.answer(row.pk, number, answers, again or {}, retry)


def fresh(row: Request) -> Request:
    return Request.objects.get(pk=row.pk)


def audited(row: Request) -> list[Cancellation]:
    return list(Cancellation.objects.filter(request_id=row.pk).order_by("pk"))


def outcomes(row: Request) -> list[Outcome]:
    return [Outcome(attempt.outcome) for attempt in audited(row)]


def numbers(row: Request) -> list[int]:
    return list(RequestEvent.objects.filter(request=row.pk).order_by("seq").values_list("seq", flat=True))


def story(row: Request, *kinds: EventKind) -> list[tuple[str, dict]]:
    """Return the row's events in order as (kind, data). Without `kinds`, return events of all kinds."""
    events = RequestEvent.objects.filter(request=row.pk).order_by("seq").values_list("kind", "data")
    return [(kind, data) for kind, data in events if not kinds or kind in kinds]


def everything(row: Request) -> tuple:
    """Return the row, events and cancellation outcomes of a request, to check that nothing has changed."""
    return (Request.objects.filter(pk=row.pk).values().get(), story(row), outcomes(row))
