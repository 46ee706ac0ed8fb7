"""Check `DATABASES` and the routers: this app's rows go to a database that suits them."""

from collections.abc import Callable, Collection
from typing import Any, Final

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004 - Django's name
from django.db import connections, router

from mcp_app.checks import lines
from mcp_app.checks.values import is_readable
from mcp_app.conf import settings
from mcp_app.databases import rows
from mcp_app.diagnosis import file_permissions
from mcp_app.models import Tool

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NETWORK: Final = '{"tcp_user_timeout": 15_000, "keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}'


@register
def check_database(**kwargs: Any) -> list[CheckMessage]:
    """Check that `MCP["DATABASE"]` exists, and that the routers send this app's rows there.

    On SQLite, it must be a file of its own that several processes can share. On PostgreSQL on
    another host, connections should have keepalives, so that the process notices when the network
    has dropped one.
    """
    if not is_readable():
        return []
    alias = settings.DATABASE
    if alias not in connections:
        return [_unknown_database(alias)]
    if router.db_for_write(Tool) != alias or not router.allow_migrate_model(alias, Tool):
        hint = f"{lines.in_settings(lines.ROUTER)}\nbefore any router that claims mcp_app."
        return [
            Error(
                f"The database routers do not send mcp_app's rows to the database {alias!r}.",
                hint=hint,
                id="mcp_app.E003",
            )
        ]
    return _ENGINES.get(connections[alias].vendor, _unsupported_engine)(alias)


@register(Tags.security)
def check_tenants(**kwargs: Any) -> list[CheckMessage]:
    """Check that a site of django-tenants has its users in the public schema, as this app's rows are."""
    types: dict[str, Any] = getattr(django_settings, "TENANT_TYPES", {})
    public = getattr(django_settings, "PUBLIC_SCHEMA_NAME", "public")
    lists = [each["APPS"] for schema, each in types.items() if schema != public]
    users = apps.get_app_config(get_user_model()._meta.app_label)
    names = {users.name, f"{type(users).__module__}.{type(users).__qualname__}"}
    if not any(names & set(each) for each in (getattr(django_settings, "TENANT_APPS", ()), *lists)):
        return []
    message = (
        "Each tenant has its own users, and mcp_app's rows are those of all tenants: an administrator of one tenant "
        "would see and cancel the calls of the others."
    )
    hint = f'Move "{users.name}" from TENANT_APPS to SHARED_APPS, so that the users are in the public schema.'
    return [Error(message, hint=hint, id="mcp_app.E034")]


@register(Tags.database)
def check_characters(databases: Collection[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that new tables on MySQL hold every character. `migrate` runs this check, and `check --database`."""
    if not databases or not is_readable() or (alias := settings.DATABASE) not in databases:
        return []
    if connections[alias].vendor != "mysql":
        return []
    [(characters,)] = rows(connections[alias], "SELECT @@character_set_database")
    if characters == "utf8mb4":
        return []
    message = f"New tables in the database {alias!r} hold the characters of {characters} only, and no emoji."
    hint = f"Run `ALTER DATABASE {connections[alias].settings_dict['NAME']} CHARACTER SET utf8mb4`. Other tables stay."
    return [Error(message, hint=hint, id="mcp_app.E035")]


def _unknown_database(alias: object) -> CheckMessage:
    known = ", ".join(map(repr, connections))
    hint = f'{lines.in_settings(*lines.sqlite_database(str(alias)))}\nor MCP["DATABASE"] = one of {known}.'
    return Error(f'MCP["DATABASE"] names {alias!r}, which is not in DATABASES.', hint=hint, id="mcp_app.E002")


def _unsupported_engine(alias: str) -> list[CheckMessage]:
    """Report an engine that is not supported, before `migrate` fails half-way."""
    served = [each for each in connections if connections[each].vendor in _ENGINES]
    name = served[0] if served else "mcp"
    database = () if served else lines.sqlite_database(name)
    hint = lines.in_settings(*database, f'MCP = {{"DATABASE": "{name}", …}}')
    engine = connections[alias].settings_dict["ENGINE"]
    message = (
        f"mcp_app's tables would be made in the database {alias!r}, on {engine}. They need SQLite, PostgreSQL, "
        f"MySQL or MariaDB. Your site's own tables stay where they are."
    )
    return [Error(message, hint=hint, id="mcp_app.E012")]


def _check_sqlite(alias: str) -> list[CheckMessage]:
    name = _file(alias)
    if _is_in_memory(name):
        hint = lines.in_settings(*lines.sqlite_database(alias))
        message = f"The database {alias!r} is in memory; the server and the worker must share a database."
        return [Error(message, hint=hint, id="mcp_app.E008")]
    if name in (_file(other) for other in connections if other != alias) or alias == "default":
        hint = lines.in_settings(*lines.sqlite_database("mcp"), 'MCP = {"DATABASE": "mcp", …}')
        message = (
            "mcp_app's tables share an SQLite database with the site's, so a tool that writes to "
            "those would delay cancellations."
        )
        return [Warning(message, hint=hint, id="mcp_app.W001")]
    return [*_check_options(alias), *_check_permissions(name)]


def _check_permissions(file: str) -> list[CheckMessage]:
    if not file_permissions.others_may(file_permissions.READ, file):
        return []
    message = f"Every user of this machine can read {file}, which contains the arguments and results of tools."
    hint = f"Run `chmod o= {file}*`, or keep it in a folder that only this user can enter."
    return [Warning(message, hint=hint, id="mcp_app.W040")]


def _check_options(alias: str) -> list[CheckMessage]:
    options = connections[alias].settings_dict.get("OPTIONS") or {}
    begins_writing = str(options.get("transaction_mode")).upper() in ("IMMEDIATE", "EXCLUSIVE")
    wal = "journal_mode=wal" in str(options.get("init_command")).lower().replace(" ", "")
    if begins_writing and wal:
        return []
    message = f"Concurrent calls would fail with “database is locked” on the database {alias!r}."
    return [Warning(message, hint=lines.in_settings(*lines.sqlite_database(alias)), id="mcp_app.W003")]


def _check_postgresql(alias: str) -> list[CheckMessage]:
    own = connections[alias].settings_dict
    host, options = str(own.get("HOST") or ""), own.get("OPTIONS") or {}
    is_here = not host or host.startswith("/") or host in _LOOPBACK
    if is_here or {"tcp_user_timeout", "keepalives_idle", "service"} & options.keys():
        return []
    message = (
        f"If the network drops a connection to the database {alias!r}, a process that uses it blocks for 15 minutes."
    )
    hint = lines.in_settings(f'DATABASES["{alias}"].setdefault("OPTIONS", {{}}).update({_NETWORK})')
    return [Warning(message, hint=hint, id="mcp_app.W017")]


def _check_mysql(alias: str) -> list[CheckMessage]:
    return []


_ENGINES: Final[dict[str, Callable[[str], list[CheckMessage]]]] = {
    "sqlite": _check_sqlite,
    "postgresql": _check_postgresql,
    "mysql": _check_mysql,
}
"""The checks of each supported engine."""


def _is_in_memory(name: str) -> bool:
    """Return whether SQLite's database is in memory.

    Does not count Django's test databases (`memorydb_…`), because test runs execute the checks as
    well.
    """
    return "memorydb_" not in name and (not name or ":memory:" in name or "mode=memory" in name)


def _file(alias: str) -> str:
    return str(connections[alias].settings_dict["NAME"] or "") if connections[alias].vendor == "sqlite" else ""
