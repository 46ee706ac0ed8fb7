"""Checks the work of tools: no side effect happened twice, without a claim, or after the end of its row."""

from collections.abc import Iterator
from typing import Final

from mcp_app.states import Status
from tests.chaos.journal import Entry
from tests.chaos.rows import Request, Rows

TOLERANCE: Final = 0.05
"""The difference, in seconds, between the file system's clock, which advances in ticks, and the database's clock."""
LOST_TOLERANCE: Final = 10.0
"""Seconds within which a lost row's work must be found and killed. Timers start the search for orphans."""


def findings(rows: Rows, journal: dict[str, Entry]) -> Iterator[str]:
    by_id = {request.id: request for request in rows.requests}
    for request_id, entry in journal.items():
        request = by_id.get(request_id)
        if request is None:
            yield f"{entry.tag} ran as {request_id}, which is no row"
            continue
        for wrong in _of(request, entry):
            yield f"request {request_id} ({entry.tag} {request.tool}, {request.status}): {wrong}"
    for request in rows.requests:
        ran = request.id in journal
        if request.tag and request.status == Status.COMPLETED and not (ran and journal[request.id].ends == 1):
            yield f"request {request.id} ({request.tag} {request.tool}) is completed, and its work did not end once"


def _of(request: Request, entry: Entry) -> Iterator[str]:
    runs = sum(status == Status.RUNNING for _, _, status in request.events)
    if not runs:
        yield "its work began, and nobody claimed it"
    if entry.begins > runs:
        yield f"its body was entered {entry.begins} times in {runs} runs"
    if request.tool != "chaos_asking" and entry.begins > 1:
        yield f"its body was entered {entry.begins} times"
    if entry.onces > 1:
        yield f"its side effect happened {entry.onces} times"
    if entry.ends > 1:
        yield f"its work ended {entry.ends} times"
    over = entry.last_at - (request.finished_at or entry.last_at)
    if over > (LOST_TOLERANCE if request.status == Status.LOST else TOLERANCE):
        yield f"its work went on for {over:.2f} s after its row had ended"


def overruns(rows: Rows, journal: dict[str, Entry]) -> list[float]:
    """Return for how many seconds the work of each lost row went on after the row had ended."""
    lost = [row for row in rows.requests if row.status == Status.LOST and row.id in journal]
    return [journal[row.id].last_at - (row.finished_at or 0) for row in lost]


def latencies(rows: Rows, journal: dict[str, Entry]) -> dict[tuple[str, int], list[float]]:
    """Return the seconds from the cancellation to the last step by tool and stage, for cancelled rows that had run."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows.requests:
        entry = journal.get(row.id)
        if entry is None or row.status != Status.CANCELLED or row.cancel_requested_at is None or not row.claimed_at:
            continue
        found.setdefault((row.tool, row.stage), []).append(max(0.0, entry.last_at - row.cancel_requested_at))
    return found
