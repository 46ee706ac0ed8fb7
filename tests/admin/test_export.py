"""The CSV of cancellations: its contents, the required permissions, escaping, and streaming in parts."""

import asyncio
import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.http import StreamingHttpResponse
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.lifecycle.audit import export
from mcp_app.lifecycle.audit.export import COLUMNS
from mcp_app.models import Cancellation
from mcp_app.models.utc_date_time import Now
from mcp_app.states import Outcome
from tests.admin.test_cancellations import LIST, attempt

pytestmark = pytest.mark.django_db(databases="__all__")

EXPORT = f"{LIST}export/"


@pytest.fixture
def auditor(log_in: Callable[..., Client]) -> Client:
    return log_in("view_cancellation")


def table(response: Any) -> list[dict[str, str]]:
    assert response.status_code == 200
    assert isinstance(response, StreamingHttpResponse)
    return list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode("utf-8-sig"), newline="")))


def test_it_is_a_file_that_a_spreadsheet_reads(auditor: Client) -> None:
    asked = datetime(2026, 11, 21, 23, 30, 17, 250_000, UTC)
    row = attempt(
        requested_at=asked, stopped_at=asked, settled_at=None, endpoint="staff", reason='wörds, "quoted"\nand more'
    )
    response = auditor.get(EXPORT)
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"].startswith('attachment; filename="cancellations-')
    content = b"".join(response.streaming_content)
    assert content.startswith(b"\xef\xbb\xbfrequested_at,request_id,")
    [found] = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    assert found == {
        "requested_at": "2026-11-21T23:30:17.250000Z",
        "request_id": str(row.request_id),
        "requested_id": "",
        "tool": "search",
        "principal_label": "ada@example.com",
        "issuer": "https://issuer.example",
        "subject": "u-1",
        "client_id": "c-1",
        "endpoint": "staff",
        "client_name": "Editor",
        "cause": "admin",
        "actor": "boss",
        "actor_address": "192.0.2.7",
        "reason": 'wörds, "quoted"\nand more',
        "part_of": "",
        "outcome": "accepted",
        "status_before": "running",
        "status_after": "cancelled",
        "stage": "kill",
        "stopped_at": "2026-11-21T23:30:17.250000Z",
        "latency_ms": "5250.0",
        "settled_at": "",
        "attempt_id": str(row.attempt_id),
        "sealed_on": "",
        "seal_number": "",
        "seal": "",
    }


@pytest.mark.fault("G7")
@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠"])
def test_no_cell_is_a_formula(auditor: Client, first: str) -> None:
    attempt(reason=f"{first}cmd|' /C calc'!A0", actor=f"{first}x")
    [found] = table(auditor.get(EXPORT))
    assert found["reason"] == f"'{first}cmd|' /C calc'!A0"
    assert found["actor"] == f"'{first}x"


def test_control_characters_are_written_out(auditor: Client) -> None:
    attempt(reason="\r=1+1", actor="a\x1b[2J\u202eb")
    [found] = table(auditor.get(EXPORT))
    assert (found["reason"], found["actor"]) == ("\\u000d=1+1", "a\\u001b[2J\\u202eb")


def test_it_has_what_the_list_shows_on_all_its_pages(auditor: Client) -> None:
    rows = [attempt(outcome=Outcome.DENIED if n % 2 else Outcome.ACCEPTED, actor=f"a{n}") for n in range(6)]
    assert [each["actor"] for each in table(auditor.get(EXPORT))] == [row.actor for row in reversed(rows)]
    assert [each["actor"] for each in table(auditor.get(f"{EXPORT}?outcome__exact=denied&p=9"))] == ["a5", "a3", "a1"]
    assert [each["actor"] for each in table(auditor.get(f"{EXPORT}?q=a4"))] == ["a4"]
    page = auditor.get(f"{LIST}?outcome__exact=denied").content.decode()
    assert f'<a href="{EXPORT}?outcome__exact=denied"' in page
    assert "Export as CSV (3)" in page


def test_the_selected_rows_can_be_exported(auditor: Client) -> None:
    rows = [attempt(actor=f"a{n}") for n in range(3)]
    chosen = {"action": "export_selected", "_selected_action": [rows[0].pk, rows[2].pk], "index": "0"}
    assert [each["actor"] for each in table(auditor.post(LIST, chosen))] == ["a2", "a0"]


@pytest.mark.parametrize("asked", [Now(), datetime(2026, 1, 1, tzinfo=UTC)], ids=["the database's time", "a time"])
def test_it_is_read_in_parts_and_misses_and_repeats_nothing(monkeypatch: pytest.MonkeyPatch, asked: Any) -> None:
    monkeypatch.setattr(export, "ROWS_AT_ONCE", 2)
    rows = [attempt(actor=f"a{n}", requested_at=asked) for n in range(5)]
    parts = export.as_csv(Cancellation.objects.all())
    next(parts)
    with CaptureQueriesContext(databases.connection()) as queries:
        first = next(parts)
    assert (first.count("\r\n"), len(queries)) == (2, 1)
    rest = list(islice(parts, len(rows)))
    actors = [line.split(",")[COLUMNS.index("actor")] for line in "".join([first, *rest]).splitlines()]
    assert actors == [row.actor for row in reversed(rows)]


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_an_asgi_server_streams_it_too(auditor: Client) -> None:
    attempt(actor="ada")
    browser = AsyncClient()
    browser.cookies = auditor.cookies

    async def download() -> list[bytes]:
        response = await browser.get(EXPORT)
        assert isinstance(response, StreamingHttpResponse)
        assert response.is_async
        parts = [part async for part in response]
        await sync_to_async(connections.close_all)()  # the connections of that thread
        return parts

    header, row = asyncio.run(download())
    assert header.startswith(b"\xef\xbb\xbfrequested_at")
    assert b",ada," in row
