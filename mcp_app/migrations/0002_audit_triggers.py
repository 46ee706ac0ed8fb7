"""The database itself refuses to change sealed rows of the audit, or to delete them before their day is purged."""

from django.db import migrations

from mcp_app.models import audit_triggers


def install(apps, schema_editor):
    run(schema_editor, audit_triggers.INSTALL)


def remove(apps, schema_editor):
    run(schema_editor, audit_triggers.REMOVE)


def run(schema_editor, statements):
    """Other databases have what the seals find, and no more."""
    for statement in statements.get(schema_editor.connection.vendor, ()):
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):
    dependencies = [("mcp_app", "0001_initial")]
    operations = [migrations.RunPython(install, remove, atomic=False)]
