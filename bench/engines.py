"""Engines borrowed for one run and left as they were: an empty Redis database, a PostgreSQL database of our own.

Their clients are imported where they are used: the embedded stack needs none. Refuses to touch what was there before.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

from bench.command import NoMeasurementError

REDIS_DATABASES = range(15, 0, -1)
CLAIM = "mcp-bench"
"""The key that says that a Redis database is in use."""
CLAIM_SECONDS = 3600
"""A run that is killed gives nothing back; no run takes longer."""


class NoEngineError(NoMeasurementError):
    """An engine is not there or not free; the text says which."""


@contextmanager
def redis_database(server: str) -> Iterator[str]:
    """The URL of an empty database of the Redis at `server`, emptied again at the end. Raises NoEngineError."""
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
            # Taken first, then looked at: of two runs at once neither gets a database that the other is in.
            if connection.set(CLAIM, "", nx=True, ex=CLAIM_SECONDS):
                if connection.dbsize() == 1:
                    return f"{server}/{number}"
                connection.delete(CLAIM)
    raise NoEngineError(f"No database of the Redis at {server} is empty.")


@contextmanager
def postgresql_database(url: str) -> Iterator[str]:
    """The URL of a new database beside the one that `url` names, dropped at the end. Raises NoEngineError."""
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
