"""Seal the final rows of the audit: add them to the chain that `signatures` explains.

Theory of operation
-------------------

Rows are sealed by a step of supervision and not when they are written, because each seal needs the
one before it: cancellations would have to wait for each other. A row is therefore unsealed for some
seconds, in which only its signature protects it. `verification` still notices if an accepted
attempt is deleted then, because each cancelled request must have one. `docs/how-to/audit.md` lists the
rest.

1. *Only final rows are sealed*, those with `settled_at`. An accepted attempt on a tool that still
   runs waits until the tool has stopped.

2. *One process at a time adds to the chain.* It locks the row of the first day, which is never
   deleted, for the whole transaction (`lock`). Purging takes the same lock.

3. *A round seals up to `BATCHES` batches*, each in its own transaction. Each one reads up to
   `BATCH` rows, gives them the next numbers and seals in the order of their keys, and writes the
   new `count`, `head` and signature of the day.

4. *A new day begins with the first batch after midnight UTC*, by the database's clock. The previous
   day is closed, and its head is logged: an attacker who can write to the database cannot change
   the log.

5. *Days never go back.* If the clock is set back, rows go on to the newest day. Conversely, a row
   that was settled while the clock was ahead waits until its day has come, because `verification`
   reports rows that were sealed before they were settled.

6. *Sealing does not judge.* A row that was inserted without this app is sealed like any other. It
   still has no valid signature, and `verification` reports it.
"""

import logging
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.db.models import QuerySet

from mcp_app.lifecycle.audit import signatures
from mcp_app.lifecycle.database.retries import transactional
from mcp_app.models import AuditDay, Cancellation
from mcp_app.models.utc_date_time import Now

logger = logging.getLogger(__name__)

BATCH: Final = 100
BATCHES: Final = 20
"""The most batches of one round."""


def seal_final_attempts() -> None:
    """Seal the rows that became final since the last round. A step of supervision."""
    for _ in range(BATCHES):
        today = _today()
        if today is None or _seal_batch(today) < BATCH:
            return


def lock() -> bool:
    """Keep other processes from sealing and purging until this transaction ends.

    Return false, and lock nothing, if there is no `AuditDay` yet.
    """
    return AuditDay.objects.select_for_update().order_by("day").first() is not None


def unsealed() -> QuerySet[Cancellation]:
    return Cancellation.objects.filter(sealed_on__isnull=True)


def _today() -> date | None:
    """Return the database's date in UTC, or `None` if there is nothing to seal."""
    found = final_attempts().annotate(now=Now()).values_list("now", flat=True)[:1]
    return next((now.astimezone(UTC).date() for now in found), None)


def final_attempts() -> QuerySet[Cancellation]:
    """Return the rows to seal, unordered, so that a batch of very many is found quickly."""
    return unsealed().filter(settled_at__isnull=False).order_by()


@transactional
def _seal_batch(today: date) -> int:
    if not lock():
        AuditDay.objects.bulk_create([_begin(today, "")], ignore_conflicts=True)
        lock()
    day = _open_day(today)
    # Rows that were settled while the clock was ahead wait for their day (rule 5).
    next_day = datetime.combine(day.day, time(), UTC) + timedelta(days=1)
    batch = sorted(final_attempts().filter(settled_at__lt=next_day)[:BATCH], key=lambda row: row.pk)
    for row in batch:
        row.sealed_on, row.seal_number = day.day, day.count + 1
        row.seal = signatures.seal(row, day.head)
        day.count, day.head = row.seal_number, row.seal
    Cancellation.objects.seal(batch)
    day.signature = signatures.sign_day(day)
    day.save(update_fields=["count", "head", "signature"])
    return len(batch)


def _open_day(today: date) -> AuditDay:
    newest = AuditDay.objects.order_by("-day")[0]
    if newest.day >= today:
        return newest
    logger.info("the audit of %s is sealed, its head is %s", newest.day, newest)
    day = _begin(today, newest.head)
    day.save(force_insert=True)
    return day


def _begin(day: date, origin: str) -> AuditDay:
    begun = AuditDay(day=day, origin=origin, head=signatures.start(day, origin))
    begun.signature = signatures.sign_day(begun)
    return begun
