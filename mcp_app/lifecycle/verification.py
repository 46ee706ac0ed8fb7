"""Whether the audit is as it was written: finds what was changed, deleted or inserted past this app, and a cut end.

Reads alone, in parts, while the site goes on: no lock is held, and what is being sealed or purged meanwhile is no
finding. Refuses to repair. What it cannot know is whether the newest part of the chain was put back to an earlier state
as a whole: for that it is given a head that was noted elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery

from mcp_app import databases
from mcp_app.lifecycle import sealing, seals
from mcp_app.models import AuditDay, Cancellation, Request
from mcp_app.states import OPEN, Outcome

ROWS_AT_ONCE: Final = 1000
_TRIGGERS: Final = {
    "sqlite": (
        "SELECT count(*) FROM sqlite_master WHERE tbl_name = %s AND name IN ('mcp_audit_update', 'mcp_audit_delete')"
    ),
    "postgresql": (
        "SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgenabled <> 'D'"
        " AND tgname IN ('mcp_audit_rows', 'mcp_audit_truncate')"
    ),
}
"""How many of the two triggers of `0002_audit_triggers` are in force."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: changed, deleted, inserted or cut; `what` names the row or the place."""

    kind: str
    what: str


def head() -> str:
    """The end of the chain, to be noted elsewhere: `DAY:COUNT:SEAL`; empty before the first is sealed."""
    newest = AuditDay.objects.order_by("-day").first()
    return "" if newest is None else str(newest)


def verify(noted: str = "") -> Iterator[Finding]:
    """What is wrong with the audit; `noted` is a `head()` of the past that it must still contain."""
    yield from _check_days()
    yield from _check_strays()
    yield from _check_unsealed()
    yield from _check_requests()
    yield from _check_triggers()
    if noted:
        yield from _check_noted(noted)


def _check_days() -> Iterator[Finding]:
    origin = ""
    for day in list(AuditDay.objects.order_by("day")):
        if day.origin != origin:
            yield Finding("deleted", f"the days before {day.day}: its chain does not begin where the last one ends")
        yield from _check_day(day)
        origin = day.head


def _check_day(day: AuditDay) -> Iterator[Finding]:
    if not seals.is_signed_day(day):
        yield Finding("changed", f"the row of the day {day.day}, or the key that it was signed with")
    if day.purged_at is not None:
        return
    found = list(_check_chain(day))
    if not (found and AuditDay.objects.filter(pk=day.pk, purged_at__isnull=False).exists()):
        yield from found


def _check_chain(day: AuditDay) -> Iterator[Finding]:
    number = 0
    previous: str | None = seals.start(day.day, day.origin)
    sealed = Cancellation.objects.filter(sealed_on=day.day, seal_number__range=(1, day.count))
    for pk, place, row in _in_parts(sealed, "seal_number"):
        if place != number + 1:
            yield Finding("deleted", f"{day.day}, {_span(number + 1, place - 1)}")
            previous = None
        if row is None:
            yield Finding("changed", f"cancellation {pk}: it cannot be read")
        elif previous is not None and not seals.is_sealed(row, previous):
            yield Finding("changed", f"cancellation {pk}")
        elif not seals.is_signed(row):
            yield Finding("inserted", f"cancellation {pk}, or changed before it was sealed")
        number, previous = place, None if row is None else row.seal
    if number < day.count:
        yield Finding("cut", f"{day.day}, {_span(number + 1, day.count)}")
    elif previous is not None and previous != day.head:
        yield Finding("changed", f"the end of the day {day.day}")


def _check_strays() -> Iterator[Finding]:
    """What has a place that no chain has, or shares its identity with another."""
    days = AuditDay.objects.filter(day=OuterRef("sealed_on"))
    sealed = Cancellation.objects.filter(sealed_on__isnull=False).annotate(count=Subquery(days.values("count")))
    for day in sealed.filter(count__isnull=True).order_by("sealed_on").values_list("sealed_on", flat=True).distinct():
        yield Finding("deleted", f"the row of the day {day}, of which there are cancellations")
    beyond = Q(seal_number__gt=F("count")) | Q(seal_number__lt=1) | Q(seal_number__isnull=True)
    for pk in sealed.filter(beyond).order_by("pk").values_list("pk", flat=True):
        yield Finding("inserted", f"cancellation {pk}: its place is not in the chain of its day")
    twice = Cancellation.objects.values("attempt_id").annotate(times=Count("pk")).filter(times__gt=1).order_by()
    for attempt_id in twice.values_list("attempt_id", flat=True):
        yield Finding("inserted", f"a copy of the attempt {attempt_id}")


def _check_unsealed() -> Iterator[Finding]:
    for pk, _, row in _in_parts(sealing.unsealed(), "pk"):
        if row is None:
            yield Finding("changed", f"cancellation {pk}: it cannot be read")
        elif not seals.is_signed(row):
            yield Finding("inserted", f"cancellation {pk}, or changed before it was sealed")
    going_on = Request.objects.filter(pk=OuterRef("request_id"), status__in=OPEN)
    reopened = Cancellation.objects.filter(settled_at__isnull=True).exclude(Exists(going_on))
    for pk in reopened.order_by("pk").values_list("pk", flat=True):
        yield Finding("changed", f"cancellation {pk}: it says that its request goes on")


def _check_requests() -> Iterator[Finding]:
    """Every request that is to stop, or was, has the attempt that was accepted, for as long as it is kept itself."""
    was_accepted = Q(outcome=Outcome.ACCEPTED) | Q(outcome=Outcome.TOO_LATE, status_before__in=OPEN)
    attempts = Cancellation.objects.filter(was_accepted, request_id=OuterRef("pk"))
    cancelled = Request.objects.filter(cancel_requested_at__isnull=False)
    for pk in cancelled.exclude(Exists(attempts)).order_by("pk").values_list("pk", flat=True):
        yield Finding("deleted", f"the accepted attempt to cancel the request {pk}")


def _check_triggers() -> Iterator[Finding]:
    connection = databases.connection()
    if (query := _TRIGGERS.get(connection.vendor)) is None:
        return
    with connection.cursor() as cursor:
        cursor.execute(query, [Cancellation._meta.db_table])
        if cursor.fetchone() != (2,):
            back = f"migrate --database {connection.alias} mcp_app"
            remedy = f"`{back} 0001_initial`, then `{back}`, bring them back"
            yield Finding("changed", f"the table of cancellations: its triggers are gone or switched off; {remedy}")


def _check_noted(noted: str) -> Iterator[Finding]:
    day, _, rest = noted.partition(":")
    number, _, seal = rest.partition(":")
    kept = AuditDay.objects.filter(day=day).first()
    if kept is None or kept.count < int(number):
        yield Finding("cut", f"what was sealed after the noted head's beginning: {noted}")
    elif kept.purged_at is None and not _stands(kept, int(number), seal):
        yield Finding("changed", f"the chain of {day}: it does not contain the noted head {noted}")


def _stands(day: AuditDay, number: int, seal: str) -> bool:
    if number == 0:
        return seal == seals.start(day.day, day.origin)
    return Cancellation.objects.filter(sealed_on=day.day, seal_number=number, seal=seal).exists()


def _span(first: int, last: int) -> str:
    return f"number {first}" if first == last else f"numbers {first} to {last}"


def _in_parts(rows: QuerySet[Cancellation], column: str) -> Iterator[tuple[int, int, Cancellation | None]]:
    """By `column`, a positive number: key, that number and row; None for one that holds what its columns cannot."""
    after = 0
    rows = rows.order_by(column)
    while part := list(rows.filter(**{f"{column}__gt": after}).values_list("pk", column)[:ROWS_AT_ONCE]):
        found = _read([pk for pk, _ in part])
        yield from ((pk, number, found.get(pk)) for pk, number in part)
        after = part[-1][1]


def _read(keys: list[int]) -> dict[int, Cancellation]:
    """Those that can be read: some databases do not mind what a column holds."""
    try:
        return Cancellation.objects.in_bulk(keys)
    except Exception:
        if len(keys) == 1:
            return {}
        half = len(keys) // 2
        return _read(keys[:half]) | _read(keys[half:])
