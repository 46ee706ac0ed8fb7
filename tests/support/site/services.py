"""A database server and Redis for one run: a new database, which is dropped afterwards, and an empty Redis database.

The server is PostgreSQL, or the one that `MCP_TEST_DATABASE` names: `mysql://root@127.0.0.1` is MariaDB.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    import redis

SERVER: Final = os.environ.get("MCP_TEST_DATABASE", "postgresql://postgres@127.0.0.1")
IS_POSTGRESQL: Final = SERVER.startswith("postgresql:")
REDIS: Final = os.environ.get("MCP_TEST_REDIS", "redis://127.0.0.1:6379")
TIMEOUT: Final = 3
CLAIM: Final = "mcp-acceptance"
"""The key that marks a Redis database as in use. Its value is the process id of the run."""
CLAIM_SECONDS: Final = 3600
"""The time after which the claim of a killed run expires. No run takes longer."""


class ServicesMissingError(Exception):
    """A service or its client library is missing. The text names it."""


def missing(why: str) -> NoReturn:
    """Skip the test, or fail it if `MCP_REQUIRE_ENGINES` is 1."""
    if os.environ.get("MCP_REQUIRE_ENGINES") == "1":
        pytest.fail(why)
    pytest.skip(why)


def only_on_postgresql() -> None:
    """Skip the test if the run is on another database server."""
    if not IS_POSTGRESQL:
        pytest.skip("it acts on PostgreSQL by statements that only PostgreSQL has")


@contextmanager
def own_services() -> Iterator[dict[str, str]]:
    """Yield the environment of a site on both services. Raises `ServicesMissingError`."""
    try:
        import channels_redis  # noqa: F401
        import redis
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ServicesMissingError(f"{error.name} is not installed") from error
    with new_database() as database:
        try:
            store, number = _empty_redis()
        except redis.ConnectionError as error:
            raise ServicesMissingError(str(error).strip()) from error
        with store:
            url = f"{REDIS}/{number}"
            try:
                yield {"MCPSITE_DATABASE": database, "MCPSITE_BROKER": url, "MCPSITE_CHANNELS": url}
            finally:
                store.flushdb()


@contextmanager
def new_database() -> Iterator[str]:
    """Yield the URL of an empty database, which is dropped afterwards. Raises `ServicesMissingError`."""
    name = f"mcp_acceptance_{secrets.token_hex(8)}"
    try:
        server = _postgresql() if IS_POSTGRESQL else _mysql()
    except ImportError as error:
        raise ServicesMissingError(f"{error.name} is not installed") from error
    with closing(server), closing(server.cursor()) as cursor:
        cursor.execute(f"CREATE DATABASE {name}" + ("" if IS_POSTGRESQL else " CHARACTER SET utf8mb4"))
        try:
            yield f"{SERVER}/{name}"
        finally:
            cursor.execute(f"DROP DATABASE {name}" + (" WITH (FORCE)" if IS_POSTGRESQL else ""))


def _postgresql() -> Any:
    import psycopg

    try:
        return psycopg.connect(f"{SERVER}/postgres", autocommit=True, connect_timeout=TIMEOUT)
    except psycopg.OperationalError as error:
        raise ServicesMissingError(str(error).strip()) from error


def _mysql() -> Any:
    import MySQLdb

    parts = urlsplit(SERVER)
    user, port = parts.username or "root", parts.port or 3306
    try:
        return MySQLdb.connect(
            host=parts.hostname, user=user, password=parts.password or "", port=port, connect_timeout=TIMEOUT
        )
    except MySQLdb.OperationalError as error:
        raise ServicesMissingError(str(error).strip()) from error


def _empty_redis() -> "tuple[redis.Redis, int]":
    """Return a connection to a numbered database that is not in use, and its number."""
    import redis

    for number in reversed(range(1, 16)):
        store = redis.Redis.from_url(f"{REDIS}/{number}", socket_connect_timeout=TIMEOUT)
        # Claim the database before checking that it is empty, so that two runs never read each other's messages.
        if store.set(CLAIM, os.getpid(), nx=True, ex=CLAIM_SECONDS):
            if store.dbsize() == 1:
                return store, number
            store.delete(CLAIM)
        store.close()
    raise ServicesMissingError("every database of Redis is in use")
