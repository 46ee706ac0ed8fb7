"""A job's connection is checked now and then, and whenever the database server may have closed it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections

from mcp_app import databases
from mcp_app.transport.process import threads
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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Returns a list that grows with each check of a connection."""
    asked: list[None] = []
    wrapper = type(databases.connection())
    is_usable = wrapper.is_usable

    def noted(self: Any) -> bool:
        asked.append(None)
        return bool(is_usable(self))

    monkeypatch.setattr(wrapper, "is_usable", noted)
    return asked


def _backend() -> int:
    with databases.connection().cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def test_jobs_that_follow_one_another_ask_once(job: Job, asked: list[None]) -> None:
    job(_backend)  # this opens the connection
    backends = {job(_backend) for _ in range(5)}
    assert (len(backends), len(asked)) == (1, 1)


def test_an_answer_that_is_old_is_asked_for_anew(job: Job, asked: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "HEALTHY_SECONDS", 0.0)
    job(_backend)
    for _ in range(3):
        job(_backend)
    assert len(asked) == 3


def test_a_connection_that_its_server_ended_is_replaced_before_the_next_job(job: Job) -> None:
    job(_backend)
    before = job(_backend)
    with databases.connection().cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [before])
        assert cursor.fetchone()[0]
    assert job(_backend) != before
