"""PostgreSQL and Redis for one run: a database of its own, created and dropped, and an empty Redis database."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import pytest

if TYPE_CHECKING:
    import redis

POSTGRESQL: Final = os.environ.get("MCP_TEST_POSTGRESQL", "postgresql://postgres@127.0.0.1")
REDIS: Final = os.environ.get("MCP_TEST_REDIS", "redis://127.0.0.1:6379")
TIMEOUT: Final = 3
CLAIM: Final = "mcp-acceptance"
"""The key that says that a Redis database is in use, by whom."""
CLAIM_SECONDS: Final = 3600
"""A run that is killed gives nothing back; no run takes longer."""


class ServicesMissingError(Exception):
    """The services or their clients are not here; the text says which."""


def missing(why: str) -> NoReturn:
    """Skip loudly; fail where the run says that the engines must be there."""
    if os.environ.get("MCP_REQUIRE_ENGINES") == "1":
        pytest.fail(why)
    pytest.skip(why)


@contextmanager
def own_services() -> Iterator[dict[str, str]]:
    """The environment of a site on both. Raises ServicesMissingError."""
    try:
        import channels_redis  # noqa: F401
        import psycopg
        import redis
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ServicesMissingError(f"{error.name} is not installed") from error
    name = f"mcp_acceptance_{secrets.token_hex(8)}"
    try:
        admin = psycopg.connect(f"{POSTGRESQL}/postgres", autocommit=True, connect_timeout=TIMEOUT)
        store, number = _empty_redis()
    except (psycopg.OperationalError, redis.ConnectionError) as error:
        raise ServicesMissingError(str(error).strip()) from error
    with admin, store:
        admin.execute(f"CREATE DATABASE {name}".encode())
        try:
            url = f"{REDIS}/{number}"
            yield {
                "MCPSITE_DATABASE": f"{POSTGRESQL}/{name}",
                "MCPSITE_BROKER": url,
                "MCPSITE_CHANNELS": url,
            }
        finally:
            store.flushdb()
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _empty_redis() -> "tuple[redis.Redis, int]":
    """A connection to a numbered database that nobody uses, and its number."""
    import redis

    for number in reversed(range(1, 16)):
        store = redis.Redis.from_url(f"{REDIS}/{number}", socket_connect_timeout=TIMEOUT)
        # Taken first, then looked at: two runs at once must not read each other's messages.
        if store.set(CLAIM, os.getpid(), nx=True, ex=CLAIM_SECONDS):
            if store.dbsize() == 1:
                return store, number
            store.delete(CLAIM)
        store.close()
    raise ServicesMissingError("every database of Redis is in use")
