"""Changes by an attacker who can write to the database and has removed the triggers."""

import re
from contextlib import contextmanager
from datetime import UTC, date, datetime, time

from django.db import connections

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle.audit import sealing, signatures, verification
from mcp_app.models import Cancellation, audit_triggers
from tests.support import rows

TABLE = Cancellation._meta.db_table
LIFTED = {
    "sqlite": audit_triggers.REMOVE["sqlite"],
    "postgresql": (f"ALTER TABLE {TABLE} DISABLE TRIGGER USER",),
    "mysql": (),
}
YESTERDAY, TODAY = date(2026, 11, 20), date(2026, 11, 21)


def execute(statement, *parameters):
    if databases.connection().vendor == "mysql":  # its columns have no time zone
        parameters = [each.removesuffix("+00:00") if isinstance(each, str) else each for each in parameters]
    with databases.connection().cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.rowcount


@contextmanager
def past_the_triggers():
    """A transaction without triggers, which is rolled back."""
    with own_triggers_on_mysql(), databases.atomic():
        for statement in LIFTED[databases.connection().vendor]:
            execute(statement)
        yield
        connections[settings.DATABASE].set_rollback(True)


@contextmanager
def own_triggers_on_mysql():
    """On MySQL, where triggers are not part of a transaction: remove them, and install them afterwards."""
    is_mysql = databases.connection().vendor == "mysql"
    for statement in audit_triggers.REMOVE["mysql"] if is_mysql else ():
        execute(statement)
    try:
        yield
    finally:
        for statement in (*audit_triggers.REMOVE["mysql"], *audit_triggers.INSTALL["mysql"]) if is_mysql else ():
            execute(statement)


def attempts(number):
    """Make final attempts to cancel, alternately accepted and too late."""
    for index in range(0, number, 2):
        row = rows.queued()
        rows.cancel(row, reason=f"attempt {index}")
        if index + 1 < number:
            rows.cancel(row, reason=f"attempt {index + 1}")


def settle_on(day):
    """Move final, genuine rows to `day`."""
    noon = datetime.combine(day, time(12), UTC)
    for row in sealing.final_attempts():
        if signatures.is_signed(row):
            row.requested_at = row.settled_at = noon
            times = {"requested_at": noon, "settled_at": noon, "stopped_at": row.stopped_at and noon}
            row.stopped_at = times["stopped_at"]
            Cancellation.objects.filter(pk=row.pk)._settle({**times, "signature": signatures.sign(row)})


def seal(monkeypatch, day):
    """Move the final rows to `day` and seal them on that day."""
    settle_on(day)
    seal_on(monkeypatch, day)


def seal_on(monkeypatch, day):
    """Seal the final rows as if the database's date were `day`."""
    monkeypatch.setattr(sealing, "_today", lambda: day if sealing.final_attempts().exists() else None)
    sealing.seal_final_attempts()


def findings(noted=""):
    """The findings of `verify`, except that the triggers are missing."""
    found = [(finding.kind, finding.what) for finding in verification.verify(noted)]
    return [(kind, what) for kind, what in found if "triggers" not in what]


def is_about(finding, kind, *facts):
    """Return whether a finding is of this kind and its description has all these words."""
    found, what = finding
    return found == kind and all(re.search(rf"\b{fact}\b", what) for fact in facts)


def kinds(noted=""):
    return [kind for kind, _ in findings(noted)]
