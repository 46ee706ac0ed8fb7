"""Verify the audit: find rows that were changed, deleted or inserted without this app.

`signatures` explains what makes this possible. Verification checks, in this order:

1. the chain of days: each day begins at the head of the day before, and its row is signed;
2. the chain within each day: numbers without gaps, valid seals and signatures, and the day's head
   at the end. In a purged day rows may be missing, so each remaining row is checked by itself;
3. sealed rows that are in no chain, and copies of rows;
4. rows that are not sealed yet: their signatures, and that only attempts on open requests are
   incomplete;
5. the requests: each cancelled one has an accepted attempt;
6. the triggers that protect the table;
7. optionally, that the audit contains a head that was noted earlier.

It only reads, in parts, without locks, while the site goes on. Rows that are sealed or purged
during the verification are no findings. It repairs nothing. `docs/how-to/audit.md` lists what it cannot
find.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery

from mcp_app import databases
from mcp_app.lifecycle.audit import sealing, signatures
from mcp_app.models import AuditDay, Cancellation, Request, audit_triggers
from mcp_app.states import OPEN, Outcome

ROWS_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class Tampering:
    """A finding: its kind (changed, deleted, inserted or cut), and the row or place concerned."""

    kind: str
    what: str


def head() -> str:
    """Return the end of the chain as `DAY:COUNT:SEAL`, to be noted outside the database.

    Empty if nothing was sealed yet.
    """
    newest = AuditDay.objects.order_by("-day").first()
    return "" if newest is None else str(newest)


def verify(noted: str = "") -> Iterator[Tampering]:
    """Yield the findings. `noted` is an earlier `head()` that the audit must still contain."""
    yield from _check_days()
    yield from _check_strays()
    yield from _check_unsealed()
    yield from _check_requests()
    yield from _check_triggers()
    if noted:
        yield from _check_noted(noted)


def _check_days() -> Iterator[Tampering]:
    origin = ""
    for day in list(AuditDay.objects.order_by("day")):
        if day.origin != origin:
            yield Tampering("deleted", f"the days before {day.day}: its chain does not begin where the last one ends")
        yield from _check_day(day)
        origin = day.head


def _check_day(day: AuditDay) -> Iterator[Tampering]:
    if not signatures.is_signed_day(day):
        yield Tampering("changed", f"the row of the day {day.day}, or the key that it was signed with")
    found = [] if day.purged_at else list(_check_chain(day))
    if day.purged_at or (found and AuditDay.objects.filter(pk=day.pk, purged_at__isnull=False).exists()):
        found = list(_check_purged(day))
    yield from found


def _sealed(day: AuditDay) -> Iterator[tuple[int, int, Cancellation | None]]:
    return _in_parts(Cancellation.objects.filter(sealed_on=day.day, seal_number__range=(1, day.count)), "seal_number")


def _check_purged(day: AuditDay) -> Iterator[Tampering]:
    """Check each remaining row of a purged day by itself, because the chain may have gaps."""
    for pk, _, row in _sealed(day):
        if row is not None:
            yield from _check_row(row)
        elif Cancellation.objects.filter(pk=pk).exists():
            yield Tampering("changed", f"cancellation {pk}: it cannot be read")


def _check_row(row: Cancellation) -> Iterator[Tampering]:
    if not signatures.is_signed(row):
        yield Tampering("inserted", f"cancellation {row.pk}, or changed before it was sealed")
    elif row.sealed_on and (row.settled_at is None or row.settled_at.astimezone(UTC).date() > row.sealed_on):
        yield Tampering("changed", f"cancellation {row.pk}: it is sealed on {row.sealed_on}, before it was settled")


def _check_chain(day: AuditDay) -> Iterator[Tampering]:
    number = 0
    previous: str | None = signatures.start(day.day, day.origin)
    for pk, place, row in _sealed(day):
        if place != number + 1:
            yield Tampering("deleted", f"{day.day}, {_span(number + 1, place - 1)}")
            previous = None
        if row is None:
            yield Tampering("changed", f"cancellation {pk}: it cannot be read")
        elif previous is not None and not signatures.is_sealed(row, previous):
            yield Tampering("changed", f"cancellation {pk}")
        else:
            yield from _check_row(row)
        number, previous = place, None if row is None else row.seal
    if number < day.count:
        yield Tampering("cut", f"{day.day}, {_span(number + 1, day.count)}")
    elif previous is not None and previous != day.head:
        yield Tampering("changed", f"the end of the day {day.day}")


def _check_strays() -> Iterator[Tampering]:
    """Find sealed rows whose place is in no chain, and rows that share an attempt id."""
    days = AuditDay.objects.filter(day=OuterRef("sealed_on"))
    sealed = Cancellation.objects.filter(sealed_on__isnull=False).annotate(count=Subquery(days.values("count")))
    for day in sealed.filter(count__isnull=True).order_by("sealed_on").values_list("sealed_on", flat=True).distinct():
        yield Tampering("deleted", f"the row of the day {day}, although cancellations sealed on it exist")
    beyond = Q(seal_number__gt=F("count")) | Q(seal_number__lt=1) | Q(seal_number__isnull=True)
    for pk in sealed.filter(beyond).order_by("pk").values_list("pk", flat=True):
        yield Tampering("inserted", f"cancellation {pk}: its place is not in the chain of its day")
    twice = Cancellation.objects.values("attempt_id").annotate(times=Count("pk")).filter(times__gt=1).order_by()
    for attempt_id in twice.values_list("attempt_id", flat=True):
        yield Tampering("inserted", f"a copy of the attempt {attempt_id}")


def _check_unsealed() -> Iterator[Tampering]:
    for pk, _, row in _in_parts(sealing.unsealed(), "pk"):
        if row is None:
            yield Tampering("changed", f"cancellation {pk}: it cannot be read")
        else:
            yield from _check_row(row)
    open_requests = Request.objects.filter(pk=OuterRef("request_id"), status__in=OPEN)
    reopened = Cancellation.objects.filter(settled_at__isnull=True).exclude(Exists(open_requests))
    for pk in reopened.order_by("pk").values_list("pk", flat=True):
        yield Tampering("changed", f"cancellation {pk}: it is not settled, although its request is no longer open")


def _check_requests() -> Iterator[Tampering]:
    """Find requests with a requested cancellation that have no accepted attempt."""
    was_accepted = Q(outcome=Outcome.ACCEPTED) | Q(outcome=Outcome.TOO_LATE, status_before__in=OPEN)
    attempts = Cancellation.objects.filter(was_accepted, request_id=OuterRef("pk"))
    cancelled = Request.objects.filter(cancel_requested_at__isnull=False)
    for pk in cancelled.exclude(Exists(attempts)).order_by("pk").values_list("pk", flat=True):
        yield Tampering("deleted", f"the accepted attempt to cancel the request {pk}")


def _check_triggers() -> Iterator[Tampering]:
    connection = databases.connection()
    if names := audit_triggers.tampered(connection):
        migrate = f"migrate --database {connection.alias} mcp_app"
        remedy = f"`{migrate} 0001_initial`, then `{migrate}`, bring them back"
        found = f"its triggers {', '.join(names)} are gone, switched off or changed"
        yield Tampering("changed", f"the table of cancellations: {found}; {remedy}")


def _check_noted(noted: str) -> Iterator[Tampering]:
    day, _, rest = noted.partition(":")
    number, _, seal = rest.partition(":")
    kept = AuditDay.objects.filter(day=day).first()
    if kept is None or kept.count < int(number):
        yield Tampering("cut", f"what was sealed after the noted head's beginning: {noted}")
    elif kept.purged_at is None and not _is_in_chain(kept, int(number), seal):
        yield Tampering("changed", f"the chain of {day}: it does not contain the noted head {noted}")


def _is_in_chain(day: AuditDay, number: int, seal: str) -> bool:
    if number == 0:
        return seal == signatures.start(day.day, day.origin)
    return Cancellation.objects.filter(sealed_on=day.day, seal_number=number, seal=seal).exists()


def _span(first: int, last: int) -> str:
    return f"number {first}" if first == last else f"numbers {first} to {last}"


def _in_parts(rows: QuerySet[Cancellation], column: str) -> Iterator[tuple[int, int, Cancellation | None]]:
    """Yield the primary key, the value of `column` and the object of each of these rows.

    `column` holds positive numbers. The object is `None` if a value cannot be read.
    """
    after = 0
    rows = rows.order_by(column)
    while part := list(rows.filter(**{f"{column}__gt": after}).values_list("pk", column)[:ROWS_AT_ONCE]):
        found = _read([pk for pk, _ in part])
        yield from ((pk, number, found.get(pk)) for pk, number in part)
        after = part[-1][1]


def _read(keys: list[int]) -> dict[int, Cancellation]:
    """Return the readable rows by key. On SQLite, a column can hold a value of the wrong type."""
    try:
        return Cancellation.objects.in_bulk(keys)
    except Exception:
        if len(keys) == 1:
            return {}
        half = len(keys) // 2
        return _read(keys[:half]) | _read(keys[half:])
