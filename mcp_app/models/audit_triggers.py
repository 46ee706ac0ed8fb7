"""The database triggers that protect sealed rows of the audit from changes and deletions.

The migration `0002_audit_triggers` installs them. `mcp audit verify` compares the installed
triggers with the text here.
"""

from typing import Final

from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_app.models.cancellation import Cancellation

_SAME_ROW: Final = """SELECT 1 FROM mcp_app_cancellation WHERE seal_number IS NOT NULL AND (
    id = NEW.id OR attempt_id = NEW.attempt_id OR (sealed_on = NEW.sealed_on AND seal_number = NEW.seal_number)
)"""
"""Finds a sealed row that `OR REPLACE` would delete, because SQLite fires no trigger for such a deletion."""

SQLITE: Final = {
    "mcp_audit_insert": f"""\
CREATE TRIGGER mcp_audit_insert BEFORE INSERT ON mcp_app_cancellation WHEN EXISTS ({_SAME_ROW})
BEGIN
    SELECT RAISE(ABORT, 'sealed rows of the audit cannot be replaced');
END""",
    "mcp_audit_replace": f"""\
CREATE TRIGGER mcp_audit_replace BEFORE UPDATE ON mcp_app_cancellation WHEN EXISTS ({_SAME_ROW} AND id <> OLD.id)
BEGIN
    SELECT RAISE(ABORT, 'sealed rows of the audit cannot be replaced');
END""",
    "mcp_audit_update": """\
CREATE TRIGGER mcp_audit_update BEFORE UPDATE ON mcp_app_cancellation WHEN OLD.seal_number IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'sealed rows of the audit cannot be changed');
END""",
    "mcp_audit_delete": """\
CREATE TRIGGER mcp_audit_delete BEFORE DELETE ON mcp_app_cancellation WHEN OLD.seal_number IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM mcp_app_auditday WHERE day = OLD.sealed_on AND purged_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'sealed rows of the audit cannot be deleted; see manage.py mcp purge');
END""",
}

_BODY: Final = """
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.seal_number IS NOT NULL THEN
        RAISE EXCEPTION 'sealed rows of the audit cannot be changed'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF TG_OP = 'DELETE' AND OLD.seal_number IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM mcp_app_auditday WHERE day = OLD.sealed_on AND purged_at IS NOT NULL
    ) THEN
        RAISE EXCEPTION 'sealed rows of the audit cannot be deleted; see manage.py mcp purge'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF TG_OP = 'TRUNCATE' AND EXISTS (SELECT 1 FROM mcp_app_cancellation WHERE seal_number IS NOT NULL) THEN
        RAISE EXCEPTION 'sealed rows of the audit cannot be deleted; see manage.py mcp purge'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
"""

POSTGRESQL: Final = {
    "mcp_audit_rows": """\
CREATE TRIGGER mcp_audit_rows BEFORE DELETE OR UPDATE ON mcp_app_cancellation \
FOR EACH ROW EXECUTE FUNCTION mcp_audit_keep()""",
    "mcp_audit_truncate": """\
CREATE TRIGGER mcp_audit_truncate BEFORE TRUNCATE ON mcp_app_cancellation \
FOR EACH STATEMENT EXECUTE FUNCTION mcp_audit_keep()""",
}
"""The triggers as `pg_get_triggerdef` prints them."""

MYSQL: Final = {
    "mcp_audit_update": """\
BEGIN
    IF OLD.seal_number IS NOT NULL THEN
        SIGNAL SQLSTATE '23000'
            SET MYSQL_ERRNO = 3819, MESSAGE_TEXT = 'sealed rows of the audit cannot be changed';
    END IF;
END""",
    "mcp_audit_delete": """\
BEGIN
    IF OLD.seal_number IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM mcp_app_auditday WHERE day = OLD.sealed_on AND purged_at IS NOT NULL
    ) THEN
        SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 3819,
            MESSAGE_TEXT = 'sealed rows of the audit cannot be deleted; see manage.py mcp purge';
    END IF;
END""",
}
"""The bodies of the triggers. 3819 is the number of a failed check, which Django raises as IntegrityError.

No trigger fires for TRUNCATE on MySQL. Only `mcp audit verify --head` finds that all rows are missing.
"""

INSTALL: Final = {
    "sqlite": tuple(SQLITE.values()),
    "postgresql": (
        f"CREATE FUNCTION mcp_audit_keep() RETURNS trigger LANGUAGE plpgsql AS $${_BODY}$$",
        *POSTGRESQL.values(),
    ),
    "mysql": tuple(
        f"CREATE TRIGGER {name} BEFORE {name.removeprefix('mcp_audit_')} ON mcp_app_cancellation FOR EACH ROW {body}"
        for name, body in MYSQL.items()
    ),
}
REMOVE: Final = {
    "sqlite": tuple(f"DROP TRIGGER IF EXISTS {name}" for name in SQLITE),
    "postgresql": (
        *(f"DROP TRIGGER IF EXISTS {name} ON mcp_app_cancellation" for name in POSTGRESQL),
        "DROP FUNCTION IF EXISTS mcp_audit_keep()",
    ),
    "mysql": tuple(f"DROP TRIGGER IF EXISTS {name}" for name in MYSQL),
}

_IN_FORCE: Final = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s",
    # `tgenabled`: O is enabled, A also on replicas. R (only on replicas) and D (disabled) do not protect the rows.
    "postgresql": """\
SELECT tgname, pg_get_triggerdef(pg_trigger.oid, true) || ' ' || prosrc
FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid JOIN pg_language ON pg_language.oid = prolang
WHERE tgrelid = to_regclass(%s) AND tgenabled IN ('O', 'A') AND lanname = 'plpgsql' AND proconfig IS NULL""",
    "mysql": """\
SELECT trigger_name, action_statement FROM information_schema.triggers
WHERE event_object_schema = DATABASE() AND event_object_table = %s AND action_timing = 'BEFORE'
AND trigger_name = CONCAT('mcp_audit_', LOWER(event_manipulation))""",
}
_EXPECTED: Final = {
    "sqlite": SQLITE,
    "postgresql": {name: f"{text} {_BODY}" for name, text in POSTGRESQL.items()},
    "mysql": MYSQL,
}


def tampered(connection: BaseDatabaseWrapper) -> list[str]:
    """Return the names of the triggers that are missing, disabled, or different from this app's triggers."""
    if connection.vendor not in _EXPECTED:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_IN_FORCE[connection.vendor], [Cancellation._meta.db_table])
        found = dict(cursor.fetchall())
    return [name for name, text in _EXPECTED[connection.vendor].items() if found.get(name) != text]
