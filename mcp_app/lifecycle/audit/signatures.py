"""Signatures and seals of the audit: HMACs under a key that is not in the database (`AUDIT_KEY`).

Theory of operation
-------------------

The audit must be convincing even if an attacker can write to the database. Triggers and the model's
manager prevent changes by accident; HMACs detect the others. There are three kinds, all
HMAC-SHA-256 over a JSON array whose first item is the kind, so that one can never stand for
another:

1. The *signature* of a row is made by the process that writes it, over all columns in `SIGNED`. It
   is made again when `attempts.settle` completes the row. A row without a valid signature was not
   written by this app, or was changed afterwards.

2. The *seal* of a row is made by supervision soon after the row is final (`sealing`). It covers the
   seal of the previous row, all signed columns, the signature, and the row's place: its day
   (`sealed_on`) and its number in that day (`seal_number`). Signatures alone would not show that a
   row was deleted. Seals do, because they form a chain:

       start(day 1) ─ seal 1 ─ seal 2 ─ seal 3 ─┐ head of day 1 = origin of day 2
                                                └ start(day 2) ─ seal 1 ─ …

3. The *signature of a day* covers the `AuditDay` row: the day, the head of the day before
   (`origin`), the number of rows (`count`), the last seal (`head`), and when the day was purged. It
   shows that rows at the end of a day are missing. Without it, an attacker could cut the chain at
   any row.

`start` needs no key: it only makes the first link different for each day.

An attacker who restores an old copy of the whole audit leaves a valid, shorter chain. So
`verification` can also compare the audit with a head that was noted elsewhere, for example in a
log.

Keys: the first of `_keys()` signs; all of them verify, so that `AUDIT_KEY` or `SECRET_KEY` can be
introduced or replaced without making older rows invalid. Without `AUDIT_KEY`, Django's `SECRET_KEY`
and `SECRET_KEY_FALLBACKS` are used.
"""

import hashlib
import hmac
import json
from datetime import UTC, date, datetime
from typing import Any, Final

from django.conf import settings as django_settings
from django.utils.encoding import force_bytes

from mcp_app.conf import settings
from mcp_app.models import AuditDay, Cancellation

SIGNED: Final = (
    "attempt_id",
    "request_id",
    "requested_id",
    "tool",
    "issuer",
    "subject",
    "client_id",
    "endpoint",
    "principal_label",
    "client_name",
    "cause",
    "actor",
    "actor_address",
    "reason",
    "part_of",
    "outcome",
    "status_before",
    "status_after",
    "stage",
    "latency_ms",
    "requested_at",
    "stopped_at",
    "settled_at",
)
SEALED: Final = ("id", *SIGNED, "signature", "sealed_on", "seal_number")


def sign(row: Cancellation) -> str:
    """Return the signature of an attempt that is about to be written."""
    return _mac(_keys()[0], _signed(row))


def is_signed(row: Cancellation) -> bool:
    return _proves(row.signature, _signed(row))


def start(day: date, origin: str) -> str:
    """Return the value to which a day's first seal is chained; `origin` is the previous head."""
    return hashlib.sha256(f"{day}:{origin}".encode()).hexdigest()


def seal(row: Cancellation, previous: str) -> str:
    """Return the seal of a final attempt whose day and number are set, given the previous seal."""
    return _mac(_keys()[0], _sealed(row, previous))


def is_sealed(row: Cancellation, previous: str) -> bool:
    return _proves(row.seal, _sealed(row, previous))


def sign_day(day: AuditDay) -> str:
    return _mac(_keys()[0], _day(day))


def is_signed_day(day: AuditDay) -> bool:
    return _proves(day.signature, _day(day))


def _signed(row: Cancellation) -> list[Any]:
    return ["attempt", *(getattr(row, name) for name in SIGNED)]


def _sealed(row: Cancellation, previous: str) -> list[Any]:
    return ["seal", previous, *(getattr(row, name) for name in SEALED)]


def _day(day: AuditDay) -> list[Any]:
    return ["day", day.day, day.origin, day.count, day.head, day.purged_at]


def _proves(mac: str, values: list[Any]) -> bool:
    return any(hmac.compare_digest(str(mac).encode(), _mac(key, values).encode()) for key in _keys())


def _mac(key: bytes, values: list[Any]) -> str:
    return hmac.new(key, json.dumps([_plain(value) for value in values]).encode(), hashlib.sha256).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _keys() -> list[bytes]:
    """Return the key that signs, followed by older keys, which only verify."""
    secrets = [django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS]
    if settings.AUDIT_KEY is not None:
        secrets.insert(0, settings.AUDIT_KEY)
    return [hashlib.sha256(b"mcp_app.audit:" + force_bytes(secret)).digest() for secret in secrets]
