"""What somebody does who can write to the database past this app, its triggers out of the way."""

from contextlib import contextmanager
from datetime import date

from django.db import connections

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle import sealing, verification
from mcp_app.models import Cancellation
from tests.lifecycle import rows

TABLE = Cancellation._meta.db_table
LIFTED = {
    "sqlite": ("DROP TRIGGER mcp_audit_update", "DROP TRIGGER mcp_audit_delete"),
    "postgresql": (f"ALTER TABLE {TABLE} DISABLE TRIGGER USER",),
}
YESTERDAY, TODAY = date(2026, 11, 20), date(2026, 11, 21)


def execute(statement, *parameters):
    with databases.connection().cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.rowcount


@contextmanager
def past_the_triggers():
    """A transaction that is rolled back, in which the database refuses nothing."""
    with databases.atomic():
        for statement in LIFTED[databases.connection().vendor]:
            execute(statement)
        yield
        connections[settings.DATABASE].set_rollback(True)


def attempts(number):
    """So many attempts to cancel, all final: the first of a pair was accepted, the second came too late."""
    for index in range(0, number, 2):
        row = rows.queued()
        rows.cancel(row, reason=f"attempt {index}")
        if index + 1 < number:
            rows.cancel(row, reason=f"attempt {index + 1}")


def seal(monkeypatch, day):
    """Seal what is final, on `day`."""
    monkeypatch.setattr(sealing, "_today", lambda: day if sealing.final_attempts().exists() else None)
    sealing.seal_final_attempts()


def findings(noted=""):
    """All but that the triggers are gone, which they are for every tampering here."""
    found = [(finding.kind, finding.what) for finding in verification.verify(noted)]
    return [(kind, what) for kind, what in found if "triggers" not in what]


def kinds(noted=""):
    return [kind for kind, _ in findings(noted)]
