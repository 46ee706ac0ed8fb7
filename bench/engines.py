"""Provides an empty Redis database and a new PostgreSQL database for one run. Existing data is not touched.

The client libraries are imported inside the functions, because the embedded stack needs none of them.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

from bench.command import NoMeasurementError

REDIS_DATABASES = range(15, 0, -1)
CLAIM = "mcp-bench"
"""The key that marks a Redis database as in use."""
CLAIM_SECONDS = 3600
"""The lifetime of the key, because a killed run cannot delete it. No run takes longer."""


class NoEngineError(NoMeasurementError):
    """An engine is missing or has no free database. The message names the engine."""


@contextmanager
def redis_database(server: str) -> Iterator[str]:
    """Yield the URL of an empty database of the Redis at `server`, and flush it at the end. Raises `NoEngineError`."""
    from redis import Redis, RedisError

    try:
        url = _empty_database(server.rstrip("/"))
    except RedisError as error:
        raise NoEngineError(f"Redis does not answer at {server}: {error}") from error
    try:
        yield url
    finally:
        with Redis.from_url(url) as connection:
            connection.flushdb()


def _empty_database(server: str) -> str:
    from redis import Redis

    for number in REDIS_DATABASES:
        with Redis.from_url(f"{server}/{number}") as connection:
            # The database is claimed before its size is checked, so that two concurrent runs never share one.
            if connection.set(CLAIM, "", nx=True, ex=CLAIM_SECONDS):
                if connection.dbsize() == 1:
                    return f"{server}/{number}"
                connection.delete(CLAIM)
    raise NoEngineError(f"No database of the Redis at {server} is empty.")


@contextmanager
def postgresql_database(url: str) -> Iterator[str]:
    """Yield the URL of a new database on the server of `url`, and drop it at the end. Raises `NoEngineError`."""
    from psycopg import Error

    name = f"mcp_bench_{secrets.token_hex(4)}"
    try:
        _execute(url, f'CREATE DATABASE "{name}"')
    except Error as error:
        raise NoEngineError(f"No database can be made beside {url}: {error}".strip()) from error
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        _execute(url, f'DROP DATABASE "{name}" WITH (FORCE)')


def _execute(url: str, statement: str) -> None:
    from psycopg import connect

    with connect(url, autocommit=True, connect_timeout=5) as connection:
        connection.execute(statement.encode())
