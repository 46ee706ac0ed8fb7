"""The benchmark's readers, figures, tables and options. Nothing here is timed."""

import re
from argparse import ArgumentParser
from collections.abc import Callable

import pytest
from django.apps import apps

from bench import listening, profile, roles
from bench.__main__ import parser
from bench.admin import __main__ as admin
from bench.admin import report
from bench.admin.pages import Page
from bench.admin.visiting import Query, Visit
from bench.disk import __main__ as disk
from bench.figures import HEADINGS, Figure, Measured, milliseconds, percentile, table
from bench.http1 import EventReader, ResponseReader
from bench.measures import Bench
from bench.million import __main__ as million
from bench.peers import __main__ as peers
from bench.stopping import last_step
from tests.docs.pages import Snippet, snippet

JSON_RESPONSE = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"id":1}'
CHUNKED_EVENTS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'a\r\ndata: {"a"\r\n8\r\n: 1}\r\n\r\n\r\n0\r\n\r\n'
)


def read(response: bytes, size: int) -> tuple[ResponseReader, bytes]:
    reader = ResponseReader()
    parts = (response[start : start + size] for start in range(0, len(response), size))
    return reader, b"".join(map(reader.feed, parts))


@pytest.mark.parametrize(
    ("percent", "value"),
    [(50, 50), (99, 99), (100, 100), (0, 1), (99.5, 100)],
    ids=["p50", "p99", "max", "min", "p99.5"],
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile(range(100, 0, -1), percent) == value


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_the_slowest_of_few_values_is_their_99th_percentile() -> None:
    assert [figure.value for figure in milliseconds([0.001, 0.002, 0.010], 50, 99)] == [2, 10]


@pytest.mark.parametrize(("value", "verdict"), [(39.9, "met"), (40, "met"), (40.1, "MISSED")])
def test_a_goal_says_whether_it_is_met(value: float, verdict: str) -> None:
    assert Figure("p99", value, "ms", at_most=40).goal == f"p99 ≤ 40 ms: {verdict}"


def test_the_table_shows_why_a_measure_failed() -> None:
    assert "FAILED: the server went away" in table(
        [Measured("echo", 0, (), failure="long story\nthe server went away")]
    )


COMMANDS = [
    (parser, snippet("project/benchmarks.md#this-project-alone")),
    (peers.parser, snippet("project/benchmarks.md#beside-its-peers")),
    (admin.parser, snippet("project/benchmarks.md#the-admin-with-a-million-requests")),
    (million.parser, snippet("project/benchmarks.md#calls-after-a-million-others")),
    (disk.parser, snippet("project/benchmarks.md#what-a-call-leaves")),
    (listening.parser, snippet("project/benchmarks.md#what-open-streams-cost")),
    (profile.parser, snippet("project/performance.md#seeing-it")),
]
IDS = ["bench", "peers", "admin", "million", "disk", "listening", "profile"]


@pytest.mark.parametrize(("parser_of", "block"), COMMANDS, ids=IDS)
def test_the_page_has_every_option(parser_of: Callable[[], ArgumentParser], block: Snippet) -> None:
    usage = " ".join(parser_of().format_usage().split()).removeprefix("usage: ").replace("[-h] ", "")
    with_choices = re.sub(r"\{([^}]*)\}", lambda choices: choices[1].replace(",", "|"), usage)
    assert block.text == f"{with_choices}\n"


VIEWS = ("mcp_submit", "mcp_claim", "mcp_end")
"""Temporary views, which the page lists beside tables."""


def test_what_a_call_says_is_told_of_tables_that_there_are() -> None:
    heading, _, *said = snippet("project/performance.md#what-a-call-says").text.splitlines()
    assert heading.split() == ["statements", "of", "a", "call", *roles.ROLES]
    tables = {line.split("  ")[0].split()[-1] for line in said} - {"IMMEDIATE", "COMMIT", *VIEWS}
    assert tables <= {model._meta.db_table for model in apps.get_models()}


@pytest.mark.parametrize(
    "run", [snippet("project/benchmarks.md#a-run"), snippet("project/benchmarks.md#a-run:2")], ids=["1", "2"]
)
def test_a_run_of_the_page_is_what_would_be_measured_now(run: Snippet) -> None:
    said, rows, end = run.text.split("\n\n")
    assert list(dict.fromkeys(line.split()[0] for line in said.splitlines())) == [
        *("command", "started", "date", "machine", "versions"),
    ]
    heading, _, *measures = rows.splitlines()
    assert tuple(re.split(" {2,}", heading)) == HEADINGS
    width = heading.index(" n ")
    assert [line[:width].rstrip() for line in measures] == [name for name, _ in object.__new__(Bench)._all()]
    assert re.fullmatch(r"\d+ s; no process left.\n", end)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["final", "after 100"])
def test_a_response_of_known_length_is_read_from_any_pieces(size: int, interim: bytes) -> None:
    reader, body = read(interim + JSON_RESPONSE, size)
    assert (reader.status, reader.complete, reader.is_event_stream, body) == (200, True, False, b'{"id":1}')


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_chunked_event_stream_is_read_from_any_pieces(size: int) -> None:
    reader, body = read(CHUNKED_EVENTS, size)
    assert reader.complete
    assert reader.is_event_stream
    assert EventReader().feed(body) == [{"a": 1}]


def test_a_response_without_a_length_ends_with_its_connection() -> None:
    reader, body = read(b"HTTP/1.1 200 OK\r\n\r\nhalf", 3)
    assert (reader.complete, reader.keeps_alive, body) == (False, False, b"half")


def test_comments_and_half_events_are_no_messages() -> None:
    events = EventReader()
    assert events.feed(b': keep-alive\n\nid: 7\ndata: {"a":1}\n\ndata: {"b"') == [{"a": 1}]
    assert events.feed(b":2}\r\n\r\n") == [{"b": 2}]


def test_the_last_step_is_the_last_whole_line() -> None:
    assert last_step("10.5 0\n10.6 1\n10.7") == 10.6


def test_a_tool_that_took_no_step_has_no_last_one() -> None:
    with pytest.raises(ValueError, match="no step"):
        last_step("10.")


def visit(queries: int, failure: str = "") -> Visit:
    asked = [Query("default", "SELECT 1", (), 0.001 * number) for number in range(queries)]
    return Visit(Page("requests: all", "/"), seconds=[0.1, 0.9, 0.2], queries=asked, failure=failure)


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        (visit(5), []),
        (visit(4), []),
        (visit(6), ["requests: all: 6 queries, 5 with few rows"]),
        (visit(0, "500 at /"), ["requests: all: 500 at /"]),
    ],
    ids=["as many", "fewer", "more", "no answer"],
)
def test_a_page_of_the_admin_is_at_fault_that_asks_more_of_many_rows_or_does_not_answer(
    found: Visit, faults: list[str]
) -> None:
    assert report.faults([found], {"requests: all": 5}) == faults


def test_a_page_of_the_admin_takes_as_long_as_half_of_its_answers() -> None:
    assert visit(3).milliseconds == pytest.approx(200)
    assert report.missed([visit(3)]) == []
