"""A job does not use a connection that the database server has closed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from mcp_app import databases
from mcp_app.transport.process.threads import on_usable_connections

pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.skipif("databases.connection().vendor != 'postgresql'", reason="a file does not end connections"),
]
PATIENCE = 20.0

Job = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def job() -> Iterator[Job]:
    """Yields a function that runs another one as a job, always in the same thread."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function: pool.submit(on_usable_connections, function, ()).result(PATIENCE)
        pool.submit(connections.close_all).result(PATIENCE)


def _backend() -> int:
    with databases.connection().cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_a_connection_that_its_server_ended_is_replaced_before_the_next_job(job: Job) -> None:
    job(_backend)
    before = job(_backend)
    with databases.connection().cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [before])
        assert cursor.fetchone()[0]
    assert job(_backend) != before
