"""Prepares a site for serving: its tables, its tools' rows, and an administrator on a developer's first start.

Only embedded databases are migrated. For other databases this is a step of the site's owner.
"""

import logging
import secrets
from dataclasses import dataclass

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.models import PermissionsMixin
from django.core.management import call_command
from django.db import Error, IntegrityError, connections, router, transaction

from mcp_app.auth import local, tokens
from mcp_app.conf import settings
from mcp_app.databases import create_sqlite_file
from mcp_app.diagnosis import migrations
from mcp_app.diagnosis.database import aliases

logger = logging.getLogger(__name__)

ADMIN_NAME = "admin"
MADE_BY = "mcp serve"


class NotPreparedError(Exception):
    """The site cannot serve yet. The message explains what to do."""


def pending_migrations(alias: str) -> int:
    """Return the number of unapplied migrations. Raises `NotPreparedError` if the database is not reachable."""
    try:
        return migrations.pending(alias)
    except Error as error:
        raise NotPreparedError(f"The database {alias!r} cannot be used: {error}".strip()) from error


def require_tables() -> None:
    """Raise `NotPreparedError`, with the command to run, unless the databases of this app and the site are migrated."""
    missing = [alias for alias in aliases() if pending_migrations(alias)]
    if missing:
        commands = " and ".join(f"`python manage.py migrate --database {alias}`" for alias in missing)
        raise NotPreparedError(f"Migrations are not applied; run {commands} first.")


def prepare_databases() -> int:
    """Apply the migrations of embedded databases and return their number.

    Raises `NotPreparedError` if other databases are not migrated.
    """
    applied = 0
    for alias in aliases():
        if connections[alias].vendor != "sqlite":
            continue
        create_sqlite_file(str(connections[alias].settings_dict["NAME"]))
        if pending := pending_migrations(alias):
            call_command("migrate", database=alias, interactive=False, verbosity=0)
            applied += pending
    require_tables()
    return applied


def _can_log_in(password: str) -> bool:
    """Return whether the site accepts the new administrator's name and password; some log users in by email only."""
    try:
        return authenticate(username=ADMIN_NAME, password=password) is not None
    except Exception:  # a backend of the site that needs the request of a login page
        logger.info("the login of the new administrator could not be tried", exc_info=True)
        return True


@dataclass(frozen=True, slots=True)
class DemoAdmin:
    """The new superuser `admin`, with its password and token. `token` is `None` if the site accepts no tokens."""

    password: str
    token: str | None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def create_demo_admin() -> DemoAdmin | None:
    """Create a superuser `admin` with a token.

    Return `None` without `DEBUG`, if there is a superuser, or if the site has another way to log in.
    """
    if not (django_settings.DEBUG and apps.is_installed("django.contrib.admin")):
        return None
    model = get_user_model()
    users = model._default_manager
    has_usual_fields = model.USERNAME_FIELD == "username" and set(model.REQUIRED_FIELDS) <= {"email"}
    if not (has_usual_fields and issubclass(model, PermissionsMixin)):  # the site creates its own superuser
        return None
    if users.filter(is_superuser=True).exists() or users.filter(username=ADMIN_NAME).exists():
        return None
    password = secrets.token_urlsafe(12)
    try:
        with transaction.atomic(using=router.db_for_write(model)):
            user = users.create_superuser(
                **dict.fromkeys(model.REQUIRED_FIELDS, ""), username=ADMIN_NAME, password=password
            )
            if not _can_log_in(password):
                transaction.set_rollback(True, using=router.db_for_write(model))
                return None
    except IntegrityError:  # created by another server process, which prints its password
        return None
    if not any(settings.at(endpoint).AUTHENTICATOR == tokens.AUTHENTICATOR for endpoint in settings.endpoints):
        return DemoAdmin(password, None)
    return DemoAdmin(password, tokens.issue(user, MADE_BY, by=local.local_principal().label).text)
