"""What must be so before a site serves: its tables, its tools' rows, and on a developer's first start an administrator.

Changes the schema of embedded databases only; elsewhere that is the site owner's own step.
"""

import secrets

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import Error, IntegrityError, connections, router, transaction

from mcp_app.diagnosis import migrations
from mcp_app.diagnosis.database import aliases

ADMIN_NAME = "admin"


class NotPreparedError(Exception):
    """The site cannot serve yet; the text says what to do."""


def pending_migrations(alias: str) -> int:
    """How many migrations the database behind `alias` has not seen. Raises NotPreparedError if it is not reachable."""
    try:
        return migrations.pending(alias)
    except Error as error:
        raise NotPreparedError(f"The database {alias!r} cannot be used: {error}".strip()) from error


def require_tables() -> None:
    """Raise NotPreparedError, with the line to run, unless this app's database and the site's own have their tables."""
    missing = [alias for alias in aliases() if pending_migrations(alias)]
    if missing:
        commands = " and ".join(f"`python manage.py migrate --database {alias}`" for alias in missing)
        raise NotPreparedError(f"Tables are missing; run {commands} first.")


def prepare_databases() -> int:
    """Apply the migrations of embedded databases; how many. Raises NotPreparedError for those missing elsewhere."""
    applied = 0
    for alias in aliases():
        if connections[alias].vendor == "sqlite" and (pending := pending_migrations(alias)):
            call_command("migrate", database=alias, interactive=False, verbosity=0)
            applied += pending
    require_tables()
    return applied


def create_demo_admin() -> str | None:
    """The password of a superuser `admin` made now: under DEBUG, where there is no superuser at all; else None."""
    if not (django_settings.DEBUG and apps.is_installed("django.contrib.admin")):
        return None
    model = get_user_model()
    users = model._default_manager
    required = {model.USERNAME_FIELD, *model.REQUIRED_FIELDS}
    if not required <= {"username", "email"}:  # a user model of the site's own: only the site knows how to fill it
        return None
    if users.filter(is_superuser=True).exists() or users.filter(username=ADMIN_NAME).exists():
        return None
    password = secrets.token_urlsafe(12)
    try:
        with transaction.atomic(using=router.db_for_write(model)):
            users.create_superuser(username=ADMIN_NAME, email="", password=password)
    except IntegrityError:  # by another server process that starts at the same moment, which tells its password
        return None
    return password
