"""`mcp audit`: verifies and exports the audit."""

import argparse
import re
from collections.abc import Callable
from datetime import date

from mcp_app.lifecycle.audit import export as audit_export
from mcp_app.lifecycle.audit import verification
from mcp_app.management.terminal import count_of
from mcp_app.models import AuditDay, Cancellation
from mcp_app.safe_text import safe_json_text

_HEAD = re.compile(r"(\d{4}-\d\d-\d\d):\d+:[0-9a-f]{64}")


def verify(noted: str, say: Callable[[str], None]) -> int:
    """Verify the audit and print a line for each finding. Return the number of findings."""
    count = 0
    for finding in verification.verify(noted):
        count += 1
        say(f"{finding.kind:<8}  {finding.what}")
    if not count:
        say(_all_is_well())
    return count


def write(noted: str, say: Callable[[str], object]) -> int:
    """Verify the audit and print a JSON object. Return the number of findings."""
    found = list(verification.verify(noted))
    told = {
        "findings": [{"kind": finding.kind, "what": finding.what} for finding in found],
        **_counted(),
        "head": verification.head(),
    }
    say(safe_json_text(told, indent=2))
    return len(found)


def export(form: str, say: Callable[[str], None]) -> None:
    """Write the whole audit, newest first, in one of the formats of `audit_export.FORMATS`.

    Raises `BrokenPipeError`.
    """
    for part in audit_export.FORMATS[form](Cancellation.objects.all()):
        say(part)


def head(text: str) -> str:
    """Parse a head as `verify` prints it. For argparse."""
    if found := _HEAD.fullmatch(text):
        try:
            date.fromisoformat(found[1])
        except ValueError:
            found = None
    if not found:
        raise argparse.ArgumentTypeError(
            f"{text} is not a head: copy the last word of the output of `mcp audit verify`"
        )
    return text


def _counted() -> dict[str, int]:
    sealed = Cancellation.objects.filter(sealed_on__isnull=False).count()
    waiting = Cancellation.objects.count() - sealed
    return {
        "sealed": sealed,
        "waiting": waiting,
        "purged_days": AuditDay.objects.filter(purged_at__isnull=False).count(),
    }


def _all_is_well() -> str:
    counted = _counted()
    sealed, purged = count_of(counted["sealed"], "attempt"), count_of(counted["purged_days"], "day")
    said = f"The audit is unchanged: {sealed} sealed, {counted['waiting']} not yet, {purged} purged."
    return f"{said}\nKeep this head outside the database, for a later --head: {verification.head() or 'none yet'}"
