"""Reads the state of a stack's engines: live workers, connections, and locks that are held."""

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from celery import current_app
from django.conf import settings
from django.db import OperationalError, connection, connections, transaction
from kombu.exceptions import KombuError

from mcp_app import conf
from mcp_app.celery_adapter.broker import CANCEL_COMMAND
from mcp_app.lifecycle.database.clock import from_now
from mcp_app.models import Process
from mcp_app.states import ProcessRole
from tests.support.sqlite_locks import refusal_to_write


def _workers() -> dict[str, int]:
    """Return the main process of each live worker by its boot id."""
    alive = Process.objects.filter(
        role=ProcessRole.WORKER, stopped_at__isnull=True, heartbeat_at__gte=from_now(-conf.settings.LOST_AFTER)
    )
    return {str(boot_id): pid for boot_id, pid in alive.values_list("boot_id", "pid")}


def _listening_workers(expected: int) -> int:
    """Return how many workers answer a control command, which cancels no request."""
    bounds = {"max_retries": 0, "socket_timeout": 4, "read_timeout": 4, "write_timeout": 4}
    broker = current_app.connection_for_write(connect_timeout=4, transport_options=bounds)
    ask = partial(current_app.control.broadcast, CANCEL_COMMAND, {"request_ids": []}, connection=broker)
    with broker, suppress(KombuError, OSError, *broker.connection_errors):
        return len(ask(reply=True, timeout=2.0, limit=expected))
    return 0


def _tasks_taken() -> dict[str, int]:
    """Return how many messages of each task the first worker that answers has taken so far."""
    told = current_app.control.inspect(timeout=4.0, limit=1).stats() or {}
    return dict(sum((Counter(of_one["total"]) for of_one in told.values()), Counter[str]()))


def _group_members() -> dict[str, int] | None:
    """Return the number of members of each group of the channel layer in Redis, or `None` without a channel layer."""
    if not getattr(settings, "CHANNEL_LAYERS", {}):
        return None
    import redis  # may not be installed for a site on embedded parts

    [host] = settings.CHANNEL_LAYERS["default"]["CONFIG"]["hosts"]
    with redis.Redis.from_url(host["address"]) as store:
        return {key.decode(): store.zcard(key) for key in store.scan_iter("asgi:group:*")}


def _connections() -> int:
    """Return the number of other connections to this database."""
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            return len(_mysql_connections(cursor))
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def _end_connections() -> int:
    """End every other connection to this database, and return their number."""
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            ended = _mysql_connections(cursor)
            for number in ended:
                cursor.execute(f"KILL {number}")
            return len(ended)
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def _mysql_connections(cursor: Any) -> list[int]:
    cursor.execute("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
    return [number for (number,) in cursor.fetchall()]


def _commits() -> int:
    from tests.everything.models import LockedRow  # not every site has this app

    return LockedRow.objects.get_or_create(pk=1)[0].commits


def _is_locked() -> bool:
    """Return whether a call of `transaction` holds its lock. On SQLite, any open write transaction counts."""
    if connection.vendor == "sqlite":
        return bool(refusal_to_write(connection.settings_dict["NAME"]))
    from tests.everything.models import LockedRow

    try:
        with transaction.atomic():
            LockedRow.objects.select_for_update(nowait=True).get(pk=1)
    except OperationalError:
        return True
    return False


def _held() -> list[str]:
    """Return a line for each write lock, open transaction and advisory lock that is held in the databases."""
    held = []
    for each in connections.all(initialized_only=False):
        held += _HELD[each.vendor](each)
    return held


def _held_sqlite(connection: Any) -> list[str]:
    name = connection.settings_dict["NAME"]
    refusal = refusal_to_write(name)
    return [f"{name}: {refusal}"] if refusal else []


def _held_postgresql(connection: Any) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 'pid ' || pid || ' ' || state || ': ' || query FROM pg_stat_activity"
            " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
            " UNION ALL SELECT 'pid ' || pid || ' holds an advisory lock' FROM pg_locks"
            " JOIN pg_database ON pg_database.oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
        return [text for (text,) in cursor.fetchall()]


def _held_mysql(connection: Any) -> list[str]:
    with connection.cursor() as cursor:
        # Not from information_schema.innodb_trx, which shows old rows while it is read more than ten times a second.
        cursor.execute("SHOW ENGINE INNODB STATUS")
        status, *_ = cursor.fetchone()[2].split("\n--------\nFILE I/O")
        cursor.execute(
            "SELECT id FROM information_schema.processlist"
            " WHERE db = DATABASE() AND command = 'Sleep' AND id <> CONNECTION_ID()"
        )
        idle = {number for (number,) in cursor.fetchall()}
    active = [text for text in status.split("\n---TRANSACTION ")[1:] if ", ACTIVE" in text.partition("\n")[0]]
    return [
        f"connection idle in a transaction: {text}"
        for text in active
        if (number := re.search(r"thread id (\d+)", text)) and int(number[1]) in idle
    ]


_HELD: Final[dict[str, Callable[[Any], list[str]]]] = {
    "sqlite": _held_sqlite,
    "postgresql": _held_postgresql,
    "mysql": _held_mysql,
}

ANSWERS: Final[dict[str, Callable[..., Any]]] = {
    "workers": _workers,
    "listening workers": _listening_workers,
    "tasks taken": _tasks_taken,
    "group members": _group_members,
    "connections": _connections,
    "end connections": _end_connections,
    "commits": _commits,
    "is locked": _is_locked,
    "held": _held,
}
