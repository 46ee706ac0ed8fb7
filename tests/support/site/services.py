"""PostgreSQL and Redis for one run: a new database, which is dropped afterwards, and an empty Redis database."""

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


@contextmanager
def own_services() -> Iterator[dict[str, str]]:
    """Yield the environment of a site on both services. Raises `ServicesMissingError`."""
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
