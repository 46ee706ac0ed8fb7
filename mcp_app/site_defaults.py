"""What this app sets up at start for a site that has not chosen it: a database, a Celery app, a broker.

Theory of operation
-------------------

`AppConfig.ready` calls `set_up` once in each process. Each part is decided by the site's settings
alone, so all processes of a site decide alike:

- **Database.** If `default` is an SQLite file and `MCP` names no `DATABASE`, this app's rows go to a
  file of their own beside it: `db-mcp.sqlite3` beside `db.sqlite3`, under the alias `mcp`. A tool that
  writes to the site's tables then delays no cancellation. `manage.py migrate` creates it: at the end of
  a migration of `default`, the receiver of `post_migrate` migrates this file as well. Any other site
  uses `default`, or the database that it names.
- **Router.** `MCPRouter` is added before the site's own routers, which may send reads to replicas, unless
  it is the first of them. It has an opinion on the models of this app only.
- **Celery app.** If the site has created no Celery app, one is made that reads the site's settings
  with the prefix `CELERY_`, as Celery's guide does it.
- **Broker.** If the site names no `CELERY_BROKER_URL`, that app uses the embedded broker, in a folder
  beside the SQLite file, or in `BASE_DIR`.

Nothing that the site has set is changed.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from celery import Celery, current_app
from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.core.management import call_command
from django.db import connections, router
from django.db.models.signals import post_migrate

from mcp_app.conf import Defaults, settings
from mcp_app.databases import MCPRouter, create_sqlite_file, is_in_memory

ALIAS: Final = "mcp"
"""The alias of the database that this app adds."""
CELERY_APP: Final = "mcp_app"
"""The name of the Celery app that this app makes."""
KEPT_CONNECTION_CALLS: Final = 1000
"""Calls for which a worker's process keeps its database connections."""
SQLITE_OPTIONS: Final[dict[str, Any]] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 10,
    "init_command": "PRAGMA journal_mode=WAL;",
}


def set_up(app_config: AppConfig) -> None:
    """Set up what the site has not chosen. Called once, when all apps are loaded."""
    if (file := own_database()) is not None:
        _add_database(file)
        post_migrate.connect(_migrate_own_database, sender=app_config, dispatch_uid="mcp_app.own_database")
    if not isinstance(next(iter(router.routers), None), MCPRouter):
        router.routers.insert(0, _OwnRouter())
    if not has_celery_app():
        _make_celery_app()


def own_database() -> Path | None:
    """Return the SQLite file that this app uses beside the site's, or `None` if the site has chosen a database.

    A database in memory has no place beside it, and the alias `mcp` may be the site's own.
    """
    chosen = "DATABASE" in getattr(django_settings, "MCP", {}) or ALIAS in django_settings.DATABASES
    site_file = _site_file()
    return None if chosen or site_file is None else _beside(site_file)


def has_celery_app() -> bool:
    """Return whether a Celery app has been created. Celery's own default app has these two names."""
    return (current_app.main, current_app.loader_cls) != ("default", "default")


class _OwnRouter(MCPRouter):
    """Sends nothing elsewhere that the site had before: results of Celery stay where they are."""

    routed_apps = frozenset({"mcp_app"})


def _site_file() -> Path | None:
    """Return the file of the site's SQLite database, or `None` if it uses another engine or none."""
    database = django_settings.DATABASES.get("default", {})
    name = str(database.get("NAME") or "")
    if database.get("ENGINE") != "django.db.backends.sqlite3" or not name or is_in_memory(name):
        return None
    return Path(name).absolute()


def _beside(site_file: Path) -> Path:
    return site_file.with_name(f"{site_file.stem}-mcp{site_file.suffix}")


def _add_database(file: Path) -> None:
    site = connections.databases["default"]
    test_file = site["TEST"]["NAME"]
    connections.databases[ALIAS] = {
        **site,
        "NAME": file,
        "ATOMIC_REQUESTS": False,
        "OPTIONS": SQLITE_OPTIONS,
        "TEST": {**site["TEST"], "NAME": _beside(Path(test_file)) if test_file else None},
    }
    # Every SQLite that Django supports has it. To find out, Django opens the database, which creates the file: before
    # `migrate` restricts its mode, and in Django 6.1 at each `manage.py check`.
    connections[ALIAS].features.supports_json_field = True
    Defaults.DATABASE = ALIAS
    settings.reload()


def _migrate_own_database(*, using: str, verbosity: int, interactive: bool, **kwargs: Any) -> None:
    """Migrate this app's file after the site's.

    In a test run, `default` is a test database by now. Django creates one for the alias `mcp` as well.
    """
    file, site_file = connections.databases[ALIAS]["NAME"], _site_file()
    if using == "default" and site_file is not None and _beside(site_file) == file:
        create_sqlite_file(str(file))
        _restrict_empty_database(Path(file))
        call_command("migrate", database=ALIAS, verbosity=verbosity, interactive=interactive)


def _restrict_empty_database(file: Path) -> None:
    """Make a file without tables readable by this user alone. It was created by opening the database."""
    connection = connections[ALIAS]
    is_empty = not connection.introspection.table_names()
    connection.close()  # also removes the files beside it, which would keep their mode
    if is_empty:
        with suppress(OSError):  # another user's file; `check` reports it
            file.chmod(0o600)


def _make_celery_app() -> None:
    app = Celery(CELERY_APP)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    # `add_defaults` takes precedence over the settings, so only what they leave out is added.
    if not _is_set("CELERY_DB_REUSE_MAX"):
        app.add_defaults({"CELERY_DB_REUSE_MAX": KEPT_CONNECTION_CALLS})
    if not _is_set("CELERY_RESULT_BACKEND") and apps.is_installed("django_celery_results"):
        app.add_defaults({"result_backend": "django-db"})
    if not _is_set("CELERY_BROKER_URL") and (folder := _broker_folder()) is not None:
        app.add_defaults({"broker_url": "mcpfs://", "broker_transport_options": {"folder": str(folder)}})
    app.set_default()


def _is_set(name: str) -> bool:
    return getattr(django_settings, name, None) is not None or name in os.environ


def _broker_folder() -> Path | None:
    """Return the folder for the embedded broker, or `None` if there is no place for one."""
    if (site_file := _site_file()) is not None:
        return site_file.with_name(f"{site_file.stem}-mcp-broker")
    base = getattr(django_settings, "BASE_DIR", None)
    return None if base is None else Path(base).absolute() / "mcp-broker"
