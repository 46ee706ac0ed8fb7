"""Makes a thousand realistic ended requests, which `filling` repeats, and the rows that are not repeated.

The rows are the same in every run. `filling` stores them.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from bench.admin.settings import DEFAULT, PARTNERS, STAFF
from mcp_app.models import ListenStream, Request, RequestEvent, Session, Token
from mcp_app.states import CancelPolicy, Cause, EventKind, Stage, Status

SAMPLES: Final = 1_000
SPACING: Final = timedelta(seconds=3)
"""The time between two requests. A million requests take almost 35 days, the period that is counted by hour."""
IN_FLIGHT: Final = 2_000
SESSIONS: Final = 5_000
STREAMS: Final = 2_000
TOKENS: Final = 10_000
CALLERS: Final = 500
TALKATIVE: Final = 5_000
"""The number of events of the one request that logs very much."""
EVENTS: Final = 4
"""The number of events of each ended request."""
_ENDS: Final = ((Status.COMPLETED, 850), (Status.CANCELLED, 100), (Status.FAILED, 48), (Status.LOST, 2))
_CAUSES: Final = ((Cause.DISCONNECT, 70), (Cause.CLIENT, 18), (Cause.ADMIN, 6), (Cause.DEADLINE, 6))
_STAGES: Final = ((Stage.COOPERATIVE, 50), (Stage.INTERRUPT, 45), (Stage.KILL, 5))
_CLIENT: Final = {"name": "editor", "title": "An editor of code", "version": "1.102.3"}
_TERMS: Final[dict[str, Any]] = {
    "method": "tools/call",
    "protocol_version": "2026-07-28",
    "client_capabilities": {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
    "cancel_policy": CancelPolicy.KILL,
    "cooperative_grace": 0.5,
    "hard_grace": 5.0,
    "time_limit": 600.0,
    "queue": "mcp",
}


def ended(newest: datetime, tools: Sequence[str]) -> list[Request]:
    """Return `SAMPLES` requests, the oldest first. Tools that come later in `tools` are called less often."""
    dice = random.Random(20261123)
    weights = [1 / (rank + 1) for rank in range(len(tools))]
    ends = [end for end, number in _ENDS for _ in range(number)]
    dice.shuffle(ends)
    usual = {tool: 10 ** dice.uniform(-2, 1.3) for tool in tools}
    found = []
    for number, end in enumerate(ends):
        tool = tools[-1] if number == 0 else dice.choices(tools, weights)[0]
        submitted = newest - SPACING * (SAMPLES - number)
        claimed = submitted + timedelta(seconds=dice.lognormvariate(-5, 1))
        finished = claimed + timedelta(seconds=usual[tool] * dice.lognormvariate(0, 0.6))
        row = _request(dice, tool, submitted)
        row.status, row.claimed_at, row.finished_at, row.event_seq = end, claimed, finished, EVENTS
        row.delivered_at = row.tallied_at = finished + timedelta(seconds=0.5)
        row.endpoint = PARTNERS if number == 0 else STAFF if number % 20 == 0 else DEFAULT
        _end(dice, row, end)
        found.append(row)
    return found


def _end(dice: random.Random, row: Request, end: Status) -> None:
    assert row.claimed_at is not None
    assert row.finished_at is not None
    if end == Status.COMPLETED:
        row.result = {"content": [{"type": "text", "text": "found it. " * dice.randint(5, 60)}]}
    elif end == Status.CANCELLED:
        row.cancel_requested_at = row.claimed_at + (row.finished_at - row.claimed_at) / 2
        row.cancel_cause = _one_of(dice, _CAUSES)
        row.stage = _one_of(dice, _STAGES)
        row.cancel_actor = "root" if row.cancel_cause == Cause.ADMIN else row.principal_label
        row.cancel_reason = "it had waited for too long" if row.cancel_cause == Cause.ADMIN else ""
    else:
        row.error = {"code": -32603, "message": f"The tool {row.tool} has failed.", "cause": "tool"}


def in_flight(newest: datetime, tools: Sequence[str], worker: UUID, sessions: Sequence[UUID]) -> Iterator[Request]:
    """Yield requests that are queued, running or waiting for input. Every tenth was submitted half an hour ago."""
    dice = random.Random(7)
    for number in range(IN_FLIGHT):
        submitted = newest - timedelta(seconds=number * 0.02 + (1_800 if number % 10 == 9 else 0))
        row = _request(dice, dice.choice(tools), submitted)
        if number % 4:
            row.status, row.claimed_at, row.worker = Status.RUNNING, submitted + timedelta(seconds=0.1), worker
            row.worker_pid, row.progress, row.progress_total, row.event_seq = 4_711, number % 100, 100, 2
        elif number % 100 == 0:
            row.status, row.claimed_at, row.questions = Status.INPUT_REQUIRED, submitted, {"name": {"type": "form"}}
        row.session = sessions[number] if number % 3 == 0 else None
        yield row


def events(row: Request) -> list[RequestEvent]:
    """Return the events of a request in flight."""
    told: list[dict[str, Any]] = [{"status": "queued"}, {"status": "running", "pid": row.worker_pid}]
    return [
        RequestEvent(request=row, seq=seq, kind=EventKind.TRANSITION, data=data, recorded_at=row.submitted_at)
        for seq, data in enumerate(told[: row.event_seq], 1)
    ]


def talk(row: Request) -> Iterator[RequestEvent]:
    """Yield the log events of the request that logs very much."""
    for seq in range(row.event_seq + 1, TALKATIVE + 1):
        data = {"level": "info", "logger": "tool", "data": f"line {seq} of the log, and what it says. " * 4}
        yield RequestEvent(request=row, seq=seq, kind=EventKind.LOG, data=data, recorded_at=row.finished_at)


def sessions(newest: datetime, server: UUID) -> Iterator[Session]:
    for number in range(SESSIONS):
        seen = newest - timedelta(seconds=number)
        yield Session(
            **_principal(number % CALLERS),
            protocol_version="2025-11-25",
            client_info=_CLIENT,
            created_at=seen - timedelta(hours=1),
            seen_at=seen,
            stream_server=server if number % 2 else None,
            subscriptions=[f"file:///{each}" for each in range(number % 4)],
        )


def streams(newest: datetime, server: UUID) -> Iterator[ListenStream]:
    for number in range(STREAMS):
        yield ListenStream(
            server=server,
            **_principal(number % CALLERS),
            protocol_version="2026-07-28",
            client_name="editor 1.102.3",
            filter={"toolsListChanged": True, "resourceSubscriptions": ["file:///a", "file:///b"]},
            opened_at=newest - timedelta(seconds=10 * number),
        )


def tokens(newest: datetime) -> Iterator[Token]:
    for number in range(TOKENS):
        made = newest - timedelta(hours=number)
        yield Token(
            prefix=f"mcp_{number:08d}",
            digest=f"{number:064x}",
            name=f"laptop {number}",
            user_id=str(number % CALLERS),
            user_label=f"caller {number % CALLERS}",
            created_at=made,
            created_by="root",
            expires_at=made + timedelta(days=90),
            last_used_at=made + timedelta(days=number % 90),
        )


def _request(dice: random.Random, tool: str, submitted: datetime) -> Request:
    return Request(
        **_TERMS,
        **_principal(dice.randrange(CALLERS)),
        jsonrpc_id=dice.randrange(1_000),
        tool=tool,
        arguments={"path": "src/wheel.py", "pattern": "axle " * dice.randint(1, 20)},
        client_info=_CLIENT,
        remote_address="192.0.2.7",
        user_id=str(dice.randrange(CALLERS)),
        submitted_at=submitted,
        queued_at=submitted,
        published_at=submitted,
    )


def _principal(number: int) -> dict[str, str]:
    name = f"caller {number}"
    return {"issuer": "https://id.example.org", "subject": name, "client_id": "editor", "principal_label": name}


def _one_of(dice: random.Random, weighted: Sequence[tuple[Any, int]]) -> Any:
    return dice.choices([each for each, _ in weighted], [weight for _, weight in weighted])[0]
