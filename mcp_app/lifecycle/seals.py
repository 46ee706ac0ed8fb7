"""What proves the audit: HMACs under a key that is not in the database (`AUDIT_KEY`).

A *signature* is made by whoever writes the row, over all but the times, which are the database's: a row without a good
one was not written by this app, or changed since. A *seal* is made soon after the row is final, over everything in it
and the seal before it: a chain for each day, each beginning where the last one ended. The day's own row says how many
there are and where it ends, signed as well. Refuses to read or write rows.
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
)
SEALED: Final = ("id", *SIGNED, "requested_at", "stopped_at", "settled_at", "signature", "sealed_on", "seal_number")


def sign(row: Cancellation) -> str:
    """The signature of an attempt as it is about to be written."""
    return _mac(_keys()[0], _signed(row))


def is_signed(row: Cancellation) -> bool:
    return _proves(row.signature, _signed(row))


def start(day: date, origin: str) -> str:
    """What the first seal of a day stands on: the day, and where the one before it ended. The seal is the secret."""
    return hashlib.sha256(f"{day}:{origin}".encode()).hexdigest()


def seal(row: Cancellation, previous: str) -> str:
    """The seal of a final attempt that has its place, on the seal before it."""
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
    """The one to prove with, then those that proved before."""
    secrets = [django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS]
    if settings.AUDIT_KEY is not None:
        secrets.insert(0, settings.AUDIT_KEY)
    return [hashlib.sha256(b"mcp_app.audit:" + force_bytes(secret)).digest() for secret in secrets]
