"""G9: changes of the audit without this app are found, on every database."""

from importlib import import_module
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_app import databases
from mcp_app.lifecycle.audit import attempts as audit
from mcp_app.lifecycle.audit import sealing, signatures, verification
from mcp_app.lifecycle.audit.attempts import Actor
from mcp_app.lifecycle.database import clock
from mcp_app.lifecycle.supervision import purging
from mcp_app.models import AuditDay, Cancellation, audit_triggers
from mcp_app.states import Cause, Outcome
from tests.lifecycle.tampering import (
    TABLE,
    TODAY,
    YESTERDAY,
    attempts,
    execute,
    findings,
    is_about,
    kinds,
    own_triggers_on_mysql,
    past_the_triggers,
    seal,
)
from tests.support import rows

TRIGGERS = import_module("mcp_app.migrations.0002_audit_triggers")
DAYS = AuditDay._meta.db_table
TEXTS = ["reason", "actor", "cause", "outcome", "tool", "subject", "status_after", "requested_id", "signature"]
TIMES = ["requested_at", "settled_at"]
IN_FULL = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=30)


@pytest.fixture
def chain(monkeypatch):
    """The keys of five attempts sealed yesterday and five sealed today, in order."""
    attempts(5)
    seal(monkeypatch, YESTERDAY)
    attempts(5)
    seal(monkeypatch, TODAY)
    assert findings() == []
    return list(Cancellation.objects.order_by("pk").values_list("pk", flat=True))


def test_an_unchanged_audit_has_no_findings(chain, worker):
    rows.stopping(worker)
    attempts(2)
    assert findings() == []
    assert verification.head().startswith(f"{TODAY}:5:")


@settings(parent=IN_FULL, max_examples=15)
@given(words=st.text(), floats=st.floats(0, 1e9))
def test_unusual_texts_are_no_findings(chain, words, floats):
    attempt = audit.make_attempt(Cause.CLIENT, Actor(words, words), words)
    now = clock.read()
    with databases.atomic():
        about = {"requested_id": audit.clean(words, 255), "latency_ms": floats, "settled_at": now}
        audit.add([audit._make(attempt, Outcome.UNKNOWN, now, **about)])
        sealing.seal_final_attempts()
        assert findings() == []
        transaction.set_rollback(True, using=databases.connection().alias)


def test_every_column_is_signed_or_sealed():
    proving = {"seal"}
    assert {field.name for field in Cancellation._meta.concrete_fields} == {*signatures.SEALED, *proving}


@pytest.mark.fault("G9")
@IN_FULL
@given(index=st.integers(0, 9), column=st.sampled_from(TEXTS))
def test_any_changed_text_is_found(chain, index, column):
    with past_the_triggers():
        execute(f"UPDATE {TABLE} SET {column} = %s WHERE id = %s", "forged", chain[index])
        assert findings()[0] == ("changed", f"cancellation {chain[index]}")


@pytest.mark.parametrize("column", ["requested_at", "settled_at", "stopped_at", "latency_ms", "stage", "request_id"])
def test_a_changed_time_or_number_is_found(chain, column):
    value = {"latency_ms": 0.5, "stage": 3, "request_id": uuid4().hex}.get(column, "2020-01-01 00:00:00+00:00")
    with past_the_triggers():
        execute(f"UPDATE {TABLE} SET {column} = %s WHERE id = %s", value, chain[3])
        assert findings() == [("changed", f"cancellation {chain[3]}")]


@pytest.mark.fault("G9")
@IN_FULL
@given(first=st.integers(0, 9), count=st.integers(1, 10))
def test_any_deletion_is_found(chain, first, count):
    gone = chain[first : first + count]
    with past_the_triggers():
        assert execute(f"DELETE FROM {TABLE} WHERE id BETWEEN %s AND %s", gone[0], gone[-1]) == len(gone)
        found = kinds()
    assert found
    assert set(found) <= {"deleted", "cut"}
    assert ("cut" in found) == (gone[-1] in (chain[4], chain[9]) or gone[0] <= chain[4] <= gone[-1])


@pytest.mark.fault("G9")
@IN_FULL
@given(index=st.integers(0, 9), is_sealed=st.booleans())
def test_any_insertion_is_found(chain, index, is_sealed):
    """A copy of a genuine row as another attempt. Its signature belongs to the first one."""
    columns = [field.column for field in Cancellation._meta.concrete_fields if field.column != "id"]
    taken = {"attempt_id": f"'{uuid4().hex}'", "seal_number": "seal_number + 100"}
    if not is_sealed:
        taken |= {"sealed_on": "NULL", "seal_number": "NULL", "seal": "''"}
    if databases.connection().vendor == "postgresql":
        taken["attempt_id"] += "::uuid"
    with past_the_triggers():
        values = ", ".join(taken.get(column, column) for column in columns)
        execute(f"INSERT INTO {TABLE} ({', '.join(columns)}) SELECT {values} FROM {TABLE} WHERE id = %s", chain[index])
        assert kinds() == ["inserted"]


def test_an_inserted_row_that_was_sealed_with_the_others_is_found(chain, monkeypatch):
    Cancellation.objects.create(cause="admin", actor="nobody", outcome="denied", settled_at="2026-11-21T00:00:00Z")
    seal(monkeypatch, TODAY)
    forged = Cancellation.objects.latest("pk")
    assert forged.sealed_on == TODAY
    [found] = findings()
    assert is_about(found, "inserted", f"cancellation {forged.pk}", "changed")


def test_a_change_of_an_unsealed_row_is_found(chain):
    attempts(1)
    newest = Cancellation.objects.latest("pk").pk
    execute(f"UPDATE {TABLE} SET actor = 'somebody else' WHERE id = %s", newest)
    [found] = findings()
    assert is_about(found, "inserted", f"cancellation {newest}", "changed")


@pytest.mark.parametrize("column", ["requested_at", "settled_at", "stopped_at"])
def test_a_changed_time_of_an_unsealed_row_is_found(chain, column):
    attempts(1)
    newest = Cancellation.objects.latest("pk").pk
    execute(f"UPDATE {TABLE} SET {column} = %s WHERE id = %s", "2020-01-01 00:00:00+00:00", newest)
    [found] = findings()
    assert is_about(found, "inserted", f"cancellation {newest}", "changed")


@pytest.mark.parametrize("column", ["requested_at", "stopped_at"])
def test_a_changed_time_of_an_attempt_on_an_open_request_is_found(chain, worker, column):
    rows.stopping(worker)
    newest = Cancellation.objects.latest("pk").pk
    execute(f"UPDATE {TABLE} SET {column} = %s WHERE id = %s", "2020-01-01 00:00:00+00:00", newest)
    [found] = findings()
    assert is_about(found, "inserted", f"cancellation {newest}", "changed")


@pytest.fixture
def purged(monkeypatch):
    """A day that may be purged but has not been. Its requests are deleted."""
    day = YESTERDAY.replace(year=2000)
    attempts(4)
    seal(monkeypatch, day)
    monkeypatch.undo()
    rows.Request.objects.all().delete()
    assert purging._mark_purged_day(1)
    assert findings() == []
    return day


def place(day, pk, number=1, **changes):
    """Give an unsealed row the place of a deleted row in the chain of `day`."""
    execute(f"DELETE FROM {TABLE} WHERE sealed_on = %s AND seal_number = %s", day, number)
    values = {"sealed_on": day, "seal_number": number, **changes}
    assigned = ", ".join(f"{name} = %s" for name in values)
    assert execute(f"UPDATE {TABLE} SET {assigned} WHERE id = %s", *values.values(), pk) == 1


@pytest.mark.fault("G9")
@pytest.mark.parametrize("changes", [{}, {"actor": "somebody else"}, {"settled_at": "2000-11-20 12:00:00+00:00"}])
def test_an_attempt_that_is_hidden_in_a_purged_day_is_found(purged, changes):
    """In a purged day, the next purge would delete it, and the chain cannot be checked."""
    rows.cancel(rows.queued(), principal=rows.STRANGER)
    newest = Cancellation.objects.latest("pk").pk
    place(purged, newest, **changes)
    [found] = findings()
    kind, *facts = ("inserted", "changed") if changes else ("changed", purged, "settled")
    assert is_about(found, kind, f"cancellation {newest}", *facts)


def test_an_attempt_on_work_that_goes_on_is_found_in_a_purged_day(purged, worker):
    rows.stopping(worker)
    newest = Cancellation.objects.latest("pk").pk
    place(purged, newest)
    [found] = findings()
    assert is_about(found, "changed", f"cancellation {newest}", purged, "settled")


def test_a_row_of_a_purged_day_that_is_forged_or_cannot_be_read_is_found(purged):
    forged = {"sealed_on": purged, "seal_number": 1, "settled_at": "2000-11-20 00:00Z", "seal": "0" * 64}
    with past_the_triggers():
        execute(f"DELETE FROM {TABLE} WHERE sealed_on = %s AND seal_number < 3", purged)
        row = Cancellation.objects.create(cause="admin", actor="nobody", outcome="denied", **forged)
        [found] = findings()
        assert is_about(found, "inserted", f"cancellation {row.pk}", "changed")
        if databases.connection().vendor == "sqlite":
            execute(f"UPDATE {TABLE} SET attempt_id = 'x' WHERE id = %s", row.pk)
            [found] = findings()
            assert is_about(found, "changed", f"cancellation {row.pk}", "read")


def test_an_accepted_attempt_that_is_deleted_before_it_is_sealed_is_missed(chain, worker):
    row = rows.stopping(worker)
    execute(f"DELETE FROM {TABLE} WHERE id = %s", Cancellation.objects.latest("pk").pk)
    [found] = findings()
    assert is_about(found, "deleted", "accepted", row.pk)


def test_an_attempt_that_is_put_back_to_before_its_end_is_found(chain, worker):
    row = rows.stopping(worker)
    before = Cancellation.objects.latest("pk")
    rows.transitions.finish(row.pk, rows.Status.CANCELLED, worker=worker)
    reopened = (
        "outcome = 'accepted', status_after = '', stage = 0, stopped_at = NULL, latency_ms = NULL, settled_at = NULL"
    )
    execute(f"UPDATE {TABLE} SET {reopened}, signature = %s WHERE id = %s", before.signature, before.pk)
    [found] = findings()
    assert is_about(found, "changed", f"cancellation {before.pk}", "not settled")


@pytest.mark.parametrize("day", [YESTERDAY, TODAY])
def test_a_day_whose_end_was_moved_back_is_found(chain, day):
    with past_the_triggers():
        execute(f"DELETE FROM {TABLE} WHERE sealed_on = %s AND seal_number > 3", day)
        last = Cancellation.objects.get(sealed_on=day, seal_number=3)
        execute(f"UPDATE {DAYS} SET count = 3, head = %s WHERE day = %s", last.seal, day)
        assert "changed" in kinds()


def test_a_day_that_is_gone_with_its_rows_is_found(chain):
    with past_the_triggers():
        execute(f"DELETE FROM {TABLE} WHERE sealed_on = %s", YESTERDAY)
        execute(f"DELETE FROM {DAYS} WHERE day = %s", YESTERDAY)
        assert any(is_about(finding, "deleted", f"before {TODAY}") for finding in findings())


def test_a_day_whose_row_is_gone_is_found(chain):
    with past_the_triggers():
        execute(f"DELETE FROM {DAYS} WHERE day = %s", TODAY)
        [found] = findings()
        assert is_about(found, "deleted", "row", TODAY)


def test_a_chain_that_was_put_back_as_a_whole_is_found_by_a_head_that_was_noted(chain, monkeypatch):
    earlier = AuditDay.objects.get(day=TODAY)
    row = rows.queued()
    rows.cancel(row, principal=rows.STRANGER)
    seal(monkeypatch, TODAY)
    noted = verification.head()
    assert findings(noted) == findings(str(earlier)) == []
    with past_the_triggers():
        execute(f"DELETE FROM {TABLE} WHERE id = %s", Cancellation.objects.latest("pk").pk)
        earlier.save()
        assert kinds() == []
        assert kinds(noted) == ["cut"]


def test_seals_of_another_key_are_findings(chain, configure):
    configure(AUDIT_KEY="another")
    assert findings() == [], "Django's own key still verifies"
    configure(AUDIT_KEY=None)


def test_a_replaced_key_still_verifies_as_a_fallback(chain, settings, monkeypatch):
    old, settings.SECRET_KEY = settings.SECRET_KEY, "a new one"
    assert set(kinds()) == {"changed"}
    settings.SECRET_KEY_FALLBACKS = [old]
    assert findings() == []
    attempts(1)
    seal(monkeypatch, TODAY)
    assert findings() == []


def test_a_row_that_cannot_be_read_is_a_finding(chain):
    if databases.connection().vendor != "sqlite":
        pytest.skip("only SQLite's columns hold anything")
    with past_the_triggers():
        execute(f"UPDATE {TABLE} SET requested_at = 'never', attempt_id = 'x' WHERE id = %s", chain[1])
        assert is_about(findings()[0], "changed", f"cancellation {chain[1]}", "read")


def test_triggers_that_are_gone_are_found(chain):
    assert list(verification.verify()) == []
    with past_the_triggers():
        [found] = verification.verify()
    vendors = {"sqlite": audit_triggers.SQLITE, "postgresql": audit_triggers.POSTGRESQL, "mysql": audit_triggers.MYSQL}
    for name in vendors[databases.connection().vendor]:
        assert name in found.what


NOTHING = "CREATE TRIGGER {0} BEFORE {1} ON mcp_app_cancellation WHEN {2} BEGIN SELECT 1; END"
REPLACED = {
    "sqlite": {
        "a trigger that does nothing": [
            "DROP TRIGGER mcp_audit_delete",
            NOTHING.format("mcp_audit_delete", "DELETE", 1),
        ],
        "a trigger for no row": ["DROP TRIGGER mcp_audit_update", NOTHING.format("mcp_audit_update", "UPDATE", 0)],
        "a trigger of another table": [
            "DROP TRIGGER mcp_audit_update",
            audit_triggers.SQLITE["mcp_audit_update"]
            .replace("mcp_app_cancellation", "mcp_app_request", 1)
            # The value has to be a column of that table.
            .replace("OLD.seal_number", "OLD.stage"),
        ],
    },
    "postgresql": {
        "a function that does nothing": [
            "CREATE OR REPLACE FUNCTION mcp_audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END; END $$"
        ],
        "a function that reads another schema's days": ["ALTER FUNCTION mcp_audit_keep() SET search_path = elsewhere"],
        "a trigger for no row": [
            "DROP TRIGGER mcp_audit_rows ON mcp_app_cancellation",
            "CREATE TRIGGER mcp_audit_rows BEFORE DELETE OR UPDATE ON mcp_app_cancellation"
            " FOR EACH ROW WHEN (false) EXECUTE FUNCTION mcp_audit_keep()",
        ],
        "a trigger for one column": [
            "DROP TRIGGER mcp_audit_rows ON mcp_app_cancellation",
            "CREATE TRIGGER mcp_audit_rows BEFORE DELETE OR UPDATE OF tool ON mcp_app_cancellation"
            " FOR EACH ROW EXECUTE FUNCTION mcp_audit_keep()",
        ],
        "one on replicas": ["ALTER TABLE mcp_app_cancellation ENABLE REPLICA TRIGGER mcp_audit_rows"],
        "one switched off": ["ALTER TABLE mcp_app_cancellation DISABLE TRIGGER mcp_audit_truncate"],
    },
    "mysql": {
        "a trigger that does nothing": [
            f"CREATE TRIGGER mcp_audit_update BEFORE UPDATE ON mcp_app_cancellation FOR EACH ROW SET @{name} = 1"
            if name == "mcp_audit_update"
            else f"CREATE TRIGGER {name} BEFORE DELETE ON mcp_app_cancellation FOR EACH ROW {body}"
            for name, body in audit_triggers.MYSQL.items()
        ],
        "a trigger of another moment": [
            f"CREATE TRIGGER {name} AFTER {name.removeprefix('mcp_audit_')} ON mcp_app_cancellation FOR EACH ROW {body}"
            for name, body in audit_triggers.MYSQL.items()
        ],
        "a trigger of another event": [
            f"CREATE TRIGGER {name} BEFORE DELETE ON mcp_app_cancellation FOR EACH ROW {body}"
            for name, body in audit_triggers.MYSQL.items()
        ],
    },
}


@pytest.mark.fault("G9")
@pytest.mark.parametrize("how", REPLACED[databases.connection().vendor])
def test_replaced_triggers_of_the_same_name_are_found(chain, how):
    with own_triggers_on_mysql(), databases.atomic():
        for statement in REPLACED[databases.connection().vendor][how]:
            execute(statement)
        [found] = verification.verify()
        transaction.set_rollback(True, using=databases.connection().alias)
    assert found.kind == "changed"
    assert "mcp_audit_" in found.what
    assert list(verification.verify()) == []


@pytest.mark.fault("G9")
@pytest.mark.parametrize("column", ["id", "attempt_id", "sealed_on, seal_number"])
@pytest.mark.parametrize("way", ["insert", "update"])
def test_sealed_rows_cannot_be_replaced_on_sqlite(chain, column, way):
    """`OR REPLACE` deletes the row with the same key without firing a trigger."""
    if databases.connection().vendor != "sqlite":
        pytest.skip("only SQLite has OR REPLACE")
    attempts(1)
    unsealed = Cancellation.objects.latest("pk")
    names = [field.column for field in Cancellation._meta.concrete_fields if field.column != "id"]
    if way == "insert":
        taken = {"id": "NULL", "attempt_id": f"'{uuid4().hex}'", "seal_number": "99", "reason": "'forged'"}
        taken = {name: value for name, value in taken.items() if name not in column.split(", ")}
        values = ", ".join(taken.get(name, name) for name in ("id", *names))
        into = f"{TABLE} (id, {', '.join(names)})"
        statement = f"INSERT OR REPLACE INTO {into} SELECT {values} FROM {TABLE} WHERE id = %s"
        parameters = [chain[2]]
    else:
        statement = (
            f"UPDATE OR REPLACE {TABLE} SET ({column}) = (SELECT {column} FROM {TABLE} WHERE id = %s) WHERE id = %s"
        )
        parameters = [chain[2], unsealed.pk]
    before = list(Cancellation.objects.values())
    with pytest.raises(IntegrityError, match=r"sealed rows .*replaced"):
        execute(statement, *parameters)
    assert list(Cancellation.objects.values()) == before


def test_migrating_back_and_forth_brings_the_triggers_back(chain):
    is_mysql = databases.connection().vendor == "mysql"  # there no transaction may change the schema
    with own_triggers_on_mysql() if is_mysql else past_the_triggers():
        schema = databases.connection().SchemaEditorClass(databases.connection())
        TRIGGERS.remove(None, schema)
        TRIGGERS.install(None, schema)
        assert list(verification.verify()) == []
