"""The audit of a busy site. With 20,000 rows, every list needs only a few queries, which use an index."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.models import Cancellation
from mcp_app.states import Cause, Outcome, Stage, Status
from tests.admin.test_cancellations import LIST

pytestmark = [pytest.mark.usefixtures("_many"), pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(300)]

SAMPLE, COPIES = 250, 79
TABLE = Cancellation._meta.db_table
FRESH = {"attempt_id": "lower(hex(randomblob(16)))"}
LAST = datetime(2026, 6, 1, tzinfo=UTC)


def sample(number: int) -> Cancellation:
    """Return one of many rows. One in a hundred is of the rare kind."""
    rare = number % 100 == 99
    return Cancellation(
        request_id=UUID(int=number + 1),
        tool="rare" if rare else "common",
        actor="boss" if rare else f"client-{number % 50}",
        principal_label=f"client-{number % 50}",
        reason="a rare reason" if rare else "",
        cause=Cause.ADMIN if rare else Cause.DISCONNECT,
        outcome=Outcome.DENIED if rare else Outcome.ACCEPTED,
        stage=Stage.KILL if rare else Stage.INTERRUPT,
        status_before=Status.RUNNING,
        status_after=Status.CANCELLED,
        requested_at=LAST - timedelta(hours=8 * number),
        latency_ms=5.0,
        settled_at=LAST,
    )


@pytest.fixture(scope="module")
def _many(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock(), databases.connection().cursor() as cursor:
        Cancellation.objects.bulk_create(map(sample, range(SAMPLE)))
        columns = ", ".join(f.column for f in Cancellation._meta.local_concrete_fields if not f.primary_key)
        copied = ", ".join(FRESH.get(name, f"one.{name}") for name in columns.split(", "))
        each = f"{TABLE} AS one, (SELECT id FROM {TABLE} ORDER BY id LIMIT {COPIES}) AS many"
        cursor.execute(f"INSERT INTO {TABLE} ({columns}) SELECT {copied} FROM {each}")
        cursor.execute("ANALYZE")
        assert Cancellation.objects.count() == SAMPLE * (COPIES + 1)
    yield
    with django_db_blocker.unblock(), databases.connection().cursor() as cursor:
        cursor.execute(f"DELETE FROM {TABLE}")


@pytest.fixture
def auditor(log_in: Callable[..., Client]) -> Client:
    return log_in("view_cancellation", "view_request")


@pytest.mark.parametrize(
    ("query", "answered_by"),
    [
        ("?p=200", "requested"),
        ("?from=2026-05-25&to=2026-05-31", "requested"),
        ("?cause__exact=admin", "cause"),
        ("?outcome__exact=denied", "outcome"),
        ("?stage__exact=3", "stage"),
        ("?tool=rare", "tool"),
        ("?actor=boss", "actor"),
        (f"?q={UUID(int=77)}", ""),
        ("?q=rare+reason", ""),
    ],
)
def test_a_list_is_a_number_and_a_page_which_an_index_answers(auditor: Client, query: str, answered_by: str) -> None:
    with CaptureQueriesContext(databases.connection()) as captured:
        changelist = auditor.get(LIST + query).context["cl"]
    asked = [each["sql"] for each in captured if TABLE in each["sql"]]
    *among, count, rows = asked
    assert len(among) == ("rare+reason" in query)  # finds the oldest row to search
    assert "COUNT(" in count
    assert 0 < len(changelist.result_list) <= 50 < changelist.result_count
    assert not answered_by or f"mcp_cancellation_{answered_by}" in plan(rows)


def plan(query: str) -> str:
    """Return the database's plan for a query."""
    explain = "EXPLAIN QUERY PLAN" if databases.connection().vendor == "sqlite" else "EXPLAIN"
    with databases.connection().cursor() as cursor:
        cursor.execute(f"{explain} {query}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())
