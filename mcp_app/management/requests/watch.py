"""`mcp watch`: shows requests in flight as they change, on a screen or with a line for each change.

It sends one query a second.
"""

import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NoReturn, Protocol
from uuid import UUID

from django.db import Error, connections
from django.db.models import OuterRef, Q, Subquery

from mcp_app.lifecycle.database.clock import from_now
from mcp_app.management import terminal
from mcp_app.management.interruptions import leave_unread
from mcp_app.management.requests import request_rows
from mcp_app.models import Process, Request
from mcp_app.models.utc_date_time import Now
from mcp_app.presentation.formatting import NOTHING, duration, moment
from mcp_app.safe_text import safe_json_text
from mcp_app.states import OPEN, Status

TICK_SECONDS: Final = 1.0
MOST: Final = 500
"""The most requests that are shown; the oldest ones come first."""
LINGERING: Final = 5.0
"""How long the screen shows an ended call."""
OVERLAP: Final = 2.0
"""The overlap of two queries in seconds, for rows of transactions that were open during the earlier one."""
HEADS: Final = ("ID", "TOOL", "STATUS", "PROGRESS", "TIME", "WORKER", "CANCEL", "CALLER")
FLEXIBLE: Final = (1, 3, 5, 6, 7)
_OTHER_SCREEN, _THIS_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


class Sight:
    """Queries the requests in flight."""

    def __init__(self) -> None:
        self._open: frozenset[UUID] = frozenset()
        self._looked_at: float | None = None

    def look(self) -> Sequence[Any]:
        """Return the open requests, oldest first, and those that have ended since the last query.

        Each has `now`, the database's time, and `heard_at`, the last heartbeat of its worker. Raises `django.db.Error`.
        """
        wanted = Q(status__in=OPEN) | Q(pk__in=self._open)
        looks_at = time.monotonic()
        if self._looked_at is not None:  # requests may have come and gone since
            wanted |= Q(submitted_at__gte=from_now(self._looked_at - looks_at - OVERLAP))
        heard = Process.objects.filter(boot_id=OuterRef("worker")).values("heartbeat_at")
        rows = Request.objects.filter(wanted).only(*request_rows.LISTED).order_by("submitted_at")
        found = list(rows.annotate(now=Now(), heard_at=Subquery(heard))[:MOST])
        self._looked_at = looks_at
        self._open = frozenset(row.pk for row in found if row.status in OPEN)
        return found


def watch(*, as_json: bool) -> None:
    """Show requests until SIGINT or SIGTERM, or until the output is closed."""
    signal.signal(signal.SIGTERM, _end)
    view: View = _ChangeLines(as_json=as_json) if as_json or not terminal.is_live(sys.stdout) else _Screen()
    try:
        _follow(view)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        leave_unread()
    finally:
        view.close()
        connections.close_all()


class View(Protocol):
    """Shows the requests."""

    def show(self, rows: Sequence[Any]) -> None:
        """Show the result of a query. Raises `BrokenPipeError`."""

    def say(self, words: str) -> None:
        """Say that no request is in flight."""

    def close(self) -> None: ...


def _follow(view: View) -> None:
    sight = Sight()
    while True:
        began_at = time.monotonic()
        try:
            view.show(sight.look())
        except Error as error:
            connections.close_all()
            view.say(f"The database cannot be read, trying again: {error}".strip())
        # Polled, because this is no server process, and one update a second is enough for people.
        time.sleep(max(0.0, began_at + TICK_SECONDS - time.monotonic()))


class _ChangeLines:
    """Prints a line or a JSON object for each change of a request."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._told: dict[UUID, tuple[Any, ...]] = {}
        self._is_first = True

    def show(self, rows: Sequence[Any]) -> None:
        current = {row.pk: _state(row) for row in rows}
        changed = [row for row in rows if self._told.get(row.pk) != current[row.pk]]
        self._told = current
        for row in changed:
            sys.stdout.write(f"{self._line(row)}\n")
        sys.stdout.flush()

    def say(self, words: str) -> None:
        sys.stderr.write(f"{terminal.one_line(words)}\n")

    def close(self) -> None:
        """Nothing."""

    def _line(self, row: Any) -> str:
        if self._as_json:
            return safe_json_text({"at": row.now.isoformat(), **request_rows.as_json(row)})
        parts = [moment(row.now), request_rows.short_id(row), terminal.one_line(row.tool), request_rows.status(row)]
        parts += [] if row.progress is None else [request_rows.progress(row)]
        parts += [] if row.cancel_requested_at is None else [f"cancelled by {request_rows.cancelled(row)}"]
        return terminal.GAP.join([*parts, request_rows.took(row, row.now)])


def _state(row: Request) -> tuple[Any, ...]:
    """Return the values whose change is shown."""
    reported = row.progress, row.progress_total, row.progress_message
    return row.status, row.cancel_requested_at, row.stage, row.unstoppable, row.worker, *reported


class _Screen:
    """Draws all requests on a screen of its own, which disappears at the end."""

    def __init__(self) -> None:
        self._ended: dict[UUID, tuple[float, Any]] = {}
        sys.stdout.write(_OTHER_SCREEN)

    def show(self, rows: Sequence[Any]) -> None:
        now = time.monotonic()
        for row in rows:
            if row.status not in OPEN:
                self._ended.setdefault(row.pk, (now, row))
        self._ended = {pk: kept for pk, kept in self._ended.items() if now - kept[0] < LINGERING}
        shown = [row for row in rows if row.status in OPEN] + [row for _, row in self._ended.values()]
        self._draw(_heading(rows), _table(shown) if shown else [])

    def say(self, words: str) -> None:
        self._draw(terminal.one_line(words), [])

    def close(self) -> None:
        with suppress(OSError):
            sys.stdout.write(_THIS_SCREEN)
            sys.stdout.flush()

    def _draw(self, heading: str, table: list[str]) -> None:
        columns, height = terminal.size(sys.stdout)
        lines = [terminal.cut(heading, columns), "", *table]
        if len(lines) > height - 1:
            hidden = len(lines) - height + 2
            lines = [*lines[: height - 2], f"… and {hidden} more; `mcp requests` lists them all"]
        sys.stdout.write(terminal.HOME + "".join(f"{line}{terminal.ERASE_REST}\r\n" for line in lines))
        sys.stdout.write(terminal.ERASE_BELOW)
        sys.stdout.flush()


def _heading(rows: Sequence[Request]) -> str:
    counted = Counter(Status(row.status) for row in rows if row.status in OPEN)
    parts = ", ".join(f"{counted[status]} {status.label}" for status in Status if counted[status])
    most = f", the oldest {MOST} of them" if len(rows) >= MOST else ""
    return f"{parts or 'Nothing'} in flight{most}. Ctrl-C ends this."


def _table(rows: Sequence[Any]) -> list[str]:
    places = _places(rows)
    cells = [
        (
            request_rows.short_id(row),
            terminal.one_line(row.tool),
            request_rows.status(row),
            request_rows.progress(row),
            request_rows.took(row, row.now),
            _whereabouts(row, places),
            request_rows.cancelled(row),
            request_rows.caller(row),
        )
        for row in rows
    ]
    return terminal.table(HEADS, cells, terminal.size(sys.stdout)[0], FLEXIBLE).split("\n")


def _places(rows: Sequence[Request]) -> dict[UUID, int]:
    """Return the places of queued requests."""
    taken: Counter[str] = Counter()
    places = {}
    for row in sorted((row for row in rows if row.status == Status.QUEUED), key=lambda row: row.queued_at):
        taken[row.queue] += 1
        places[row.pk] = taken[row.queue]
    return places


def _whereabouts(row: Any, places: Mapping[UUID, int]) -> str:
    """Return the place of a queued request, or the age of the heartbeat of a running request's worker."""
    if row.pk in places:
        return f"place {places[row.pk]} in {terminal.one_line(row.queue)}"
    if row.status != Status.RUNNING or row.heard_at is None:
        return NOTHING
    return f"heard of {duration(max(0.0, (row.now - row.heard_at).total_seconds()))} ago"


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
