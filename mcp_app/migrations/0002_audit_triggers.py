"""What is sealed in the audit stays: the database itself refuses to change it, and to delete it before its day is purged."""

from django.db import migrations

SQLITE = (
    """
CREATE TRIGGER mcp_audit_update BEFORE UPDATE ON mcp_app_cancellation WHEN OLD.seal_number IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'what is sealed in the audit cannot be changed');
END""",
    """
CREATE TRIGGER mcp_audit_delete BEFORE DELETE ON mcp_app_cancellation WHEN OLD.seal_number IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM mcp_app_auditday WHERE day = OLD.sealed_on AND purged_at IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'what is sealed in the audit cannot be deleted; see manage.py mcp purge');
END""",
)
SQLITE_BACK = ("DROP TRIGGER IF EXISTS mcp_audit_update", "DROP TRIGGER IF EXISTS mcp_audit_delete")
POSTGRESQL = (
    """
CREATE FUNCTION mcp_audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.seal_number IS NOT NULL THEN
        RAISE EXCEPTION 'what is sealed in the audit cannot be changed' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF TG_OP = 'DELETE' AND OLD.seal_number IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM mcp_app_auditday WHERE day = OLD.sealed_on AND purged_at IS NOT NULL
    ) THEN
        RAISE EXCEPTION 'what is sealed in the audit cannot be deleted; see manage.py mcp purge'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF TG_OP = 'TRUNCATE' AND EXISTS (SELECT 1 FROM mcp_app_cancellation WHERE seal_number IS NOT NULL) THEN
        RAISE EXCEPTION 'what is sealed in the audit cannot be deleted; see manage.py mcp purge'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER mcp_audit_rows BEFORE UPDATE OR DELETE ON mcp_app_cancellation
    FOR EACH ROW EXECUTE FUNCTION mcp_audit_keep();
CREATE TRIGGER mcp_audit_truncate BEFORE TRUNCATE ON mcp_app_cancellation
    FOR EACH STATEMENT EXECUTE FUNCTION mcp_audit_keep();
""",
)
POSTGRESQL_BACK = (
    """
DROP TRIGGER IF EXISTS mcp_audit_rows ON mcp_app_cancellation;
DROP TRIGGER IF EXISTS mcp_audit_truncate ON mcp_app_cancellation;
DROP FUNCTION IF EXISTS mcp_audit_keep();
""",
)


def install(apps, schema_editor):
    run(schema_editor, {"sqlite": SQLITE, "postgresql": POSTGRESQL})


def remove(apps, schema_editor):
    run(schema_editor, {"sqlite": SQLITE_BACK, "postgresql": POSTGRESQL_BACK})


def run(schema_editor, statements):
    """Other databases have what the seals find, and no more."""
    for statement in statements.get(schema_editor.connection.vendor, ()):
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):
    dependencies = [("mcp_app", "0001_initial")]
    operations = [migrations.RunPython(install, remove)]
