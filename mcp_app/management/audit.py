"""`mcp audit`: whether the audit is as it was written, and the audit as a file."""

import argparse
import os
import re
import sys
from collections.abc import Callable
from datetime import date

from mcp_app.lifecycle import audit_export, verification
from mcp_app.models import AuditDay, Cancellation

_HEAD = re.compile(r"(\d{4}-\d\d-\d\d):\d+:[0-9a-f]{64}")


def verify(noted: str, say: Callable[[str], None]) -> int:
    """Say what is wrong, a line for each finding, or that nothing is; how many findings."""
    count = 0
    for finding in verification.verify(noted):
        count += 1
        say(f"{finding.kind:<8}  {finding.what}")
    if not count:
        say(_all_is_well())
    return count


def export(form: str, say: Callable[[str], None]) -> None:
    """Write the whole audit, newest first; `form` names one of `audit_export.FORMATS`.

    Raises SystemExit where nobody reads on.
    """
    try:
        for part in audit_export.FORMATS[form](Cancellation.objects.all()):
            say(part)
    except BrokenPipeError:
        # Else the interpreter tries to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


def head(text: str) -> str:
    """For argparse: a head as `verify` says it."""
    if found := _HEAD.fullmatch(text):
        try:
            date.fromisoformat(found[1])
        except ValueError:
            found = None
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is no head: copy the last word that `mcp audit verify` says")
    return text


def _all_is_well() -> str:
    sealed = Cancellation.objects.filter(sealed_on__isnull=False).count()
    waiting = Cancellation.objects.count() - sealed
    purged = AuditDay.objects.filter(purged_at__isnull=False).count()
    said = f"The audit is as it was written: {sealed} attempts sealed, {waiting} not yet, {purged} days purged."
    return f"{said}\nIts head, to be kept elsewhere: {verification.head() or 'none yet'}"
