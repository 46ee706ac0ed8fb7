"""Seals what is final in the audit: a step of supervision, in small batches, so that who cancels never waits for it.

One process at a time adds to the chain: it locks the row of the first day, which is never deleted. Refuses to judge
what it seals: a row that this app did not write lacks its signature for ever, and `verification` finds that.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, date
from typing import Final

from django.db.models import QuerySet
from django.db.models.functions import Now

from mcp_app.lifecycle import seals
from mcp_app.lifecycle.locks import transactional
from mcp_app.models import AuditDay, Cancellation

logger = logging.getLogger(__name__)

BATCH: Final = 100
BATCHES: Final = 20
"""What one round seals at most."""


def seal_final_attempts() -> None:
    """Seal what became final since the last round."""
    for _ in range(BATCHES):
        today = _today()
        if today is None or _seal_batch(today) < BATCH:
            return


def lock() -> None:
    """Keep every other process from sealing and purging until this transaction ends. Needs a day that was sealed."""
    AuditDay.objects.select_for_update().order_by("day").first()


def unsealed() -> QuerySet[Cancellation]:
    return Cancellation.objects.filter(sealed_on__isnull=True)


def _today() -> date | None:
    """The database's day, UTC, if there is something to be sealed."""
    found = final_attempts().annotate(now=Now()).values_list("now", flat=True)[:1]
    return next((now.astimezone(UTC).date() for now in found), None)


def final_attempts() -> QuerySet[Cancellation]:
    """What is to be sealed, in no order: of very many a few are found as fast."""
    return unsealed().filter(settled_at__isnull=False).order_by()


@transactional
def _seal_batch(today: date) -> int:
    if not AuditDay.objects.exists():
        AuditDay.objects.bulk_create([_begin(today, "")], ignore_conflicts=True)
    lock()
    day = _open_day(today)
    batch = sorted(final_attempts()[:BATCH], key=lambda row: row.pk)
    _chain(day, batch)
    Cancellation.objects.seal(batch)
    day.signature = seals.sign_day(day)
    day.save(update_fields=["count", "head", "signature"])
    return len(batch)


def _chain(day: AuditDay, batch: Sequence[Cancellation]) -> None:
    for row in batch:
        row.sealed_on, row.seal_number = day.day, day.count + 1
        row.seal = seals.seal(row, day.head)
        day.count, day.head = row.seal_number, row.seal


def _open_day(today: date) -> AuditDay:
    newest = AuditDay.objects.order_by("-day")[0]
    if newest.day >= today:
        return newest
    # The log is outside the database: whoever cuts the audit cannot cut what was said here.
    logger.info("the audit of %s is closed, its head is %s", newest.day, newest)
    day = _begin(today, newest.head)
    day.save(force_insert=True)
    return day


def _begin(day: date, origin: str) -> AuditDay:
    begun = AuditDay(day=day, origin=origin, head=seals.start(day, origin))
    begun.signature = seals.sign_day(begun)
    return begun
