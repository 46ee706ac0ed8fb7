"""`DATABASES` and the routers: this app's rows have a database, get there, and on SQLite have one of their own."""

from typing import Any, Final

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004 - Django's name
from django.db import connections, router

from mcp_app.checks import lines
from mcp_app.checks.values import readable
from mcp_app.conf import settings
from mcp_app.models import Tool

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NETWORK: Final = '{"tcp_user_timeout": 15_000, "keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3}'


@register
def check_database(**kwargs: Any) -> list[CheckMessage]:
    """`MCP["DATABASE"]` exists and holds the app's rows; on SQLite it is a file that several processes can share, on
    PostgreSQL of another host nobody waits for a connection that the network forgot."""
    if not readable():
        return []
    alias = settings.DATABASE
    if alias not in connections:
        return [_unknown(alias)]
    if router.db_for_write(Tool) != alias or not router.allow_migrate_model(alias, Tool):
        hint = f"{lines.in_settings(lines.ROUTER)}\nbefore any router that claims mcp_app."
        return [Error(f"The rows of mcp_app do not go to the database {alias!r}.", hint=hint, id="mcp_app.E003")]
    own = {"sqlite": _sqlite, "postgresql": _postgresql}.get(connections[alias].vendor)
    return own(alias) if own is not None else []


@register
def check_times(**kwargs: Any) -> list[CheckMessage]:
    """Times are with a zone: the audit's are UTC, and those of calls are compared with the database's own."""
    if django_settings.USE_TZ:
        return []
    message = "The times of mcp_app's rows are in UTC, which Django keeps with time zones only."
    return [Error(message, hint=lines.in_settings("USE_TZ = True"), id="mcp_app.E032")]


def _unknown(alias: object) -> CheckMessage:
    known = ", ".join(map(repr, connections))
    hint = f'{lines.in_settings(*lines.sqlite_database(str(alias)))}\nor MCP["DATABASE"] = one of {known}.'
    return Error(f'MCP["DATABASE"] names {alias!r}, which DATABASES has not.', hint=hint, id="mcp_app.E002")


def _sqlite(alias: str) -> list[CheckMessage]:
    name = _file(alias)
    if _is_in_memory(name):
        hint = lines.in_settings(*lines.sqlite_database(alias))
        message = f"The database {alias!r} is in the memory of one process; the server and the worker must share it."
        return [Error(message, hint=hint, id="mcp_app.E008")]
    if name in (_file(other) for other in connections if other != alias) or alias == "default":
        hint = lines.in_settings(*lines.sqlite_database("mcp"), lines.ROUTER, 'MCP = {"DATABASE": "mcp", …}')
        message = "On SQLite a tool that writes to the site's tables would hold up cancellations and progress."
        return [Warning(message, hint=hint, id="mcp_app.W001")]
    return _options(alias)


def _options(alias: str) -> list[CheckMessage]:
    options = connections[alias].settings_dict.get("OPTIONS") or {}
    begins_writing = str(options.get("transaction_mode")).upper() in ("IMMEDIATE", "EXCLUSIVE")
    wal = "journal_mode=wal" in str(options.get("init_command")).lower().replace(" ", "")
    if begins_writing and wal:
        return []
    message = f"Calls that run at once would fail with “database is locked” on the database {alias!r}."
    return [Warning(message, hint=lines.in_settings(*lines.sqlite_database(alias)), id="mcp_app.W003")]


def _postgresql(alias: str) -> list[CheckMessage]:
    own = connections[alias].settings_dict
    host, options = str(own.get("HOST") or ""), own.get("OPTIONS") or {}
    is_here = not host or host.startswith("/") or host in _LOOPBACK
    if is_here or {"tcp_user_timeout", "keepalives_idle", "service"} & options.keys():
        return []
    message = f"A connection to the database {alias!r} that the network forgot would be waited for for 15 minutes."
    hint = lines.in_settings(f'DATABASES["{alias}"].setdefault("OPTIONS", {{}}).update({_NETWORK})')
    return [Warning(message, hint=hint, id="mcp_app.W017")]


def _is_in_memory(name: str) -> bool:
    """Not what Django calls memorydb_…: that is the site's own tests', which run the checks, too."""
    return "memorydb_" not in name and (not name or ":memory:" in name or "mode=memory" in name)


def _file(alias: str) -> str:
    return str(connections[alias].settings_dict["NAME"] or "") if connections[alias].vendor == "sqlite" else ""
