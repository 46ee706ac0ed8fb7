"""A call's budget is counted right. Nothing here is timed."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bench import wire
from bench.peers.idleness import recorded


@pytest.mark.parametrize(
    ("statement", "shape"),
    [
        ('SELECT "mcp_app_tool"."name" FROM "mcp_app_tool" WHERE 1', "SELECT mcp_app_tool"),
        ('INSERT INTO "mcp_app_request" ("id") VALUES (%s)', "INSERT INTO mcp_app_request"),
        ('UPDATE "mcp_app_request" SET "status" = %s', "UPDATE mcp_app_request"),
        ('DELETE FROM "mcp_app_token" WHERE 1', "DELETE FROM mcp_app_token"),
        ("BEGIN IMMEDIATE", "BEGIN IMMEDIATE"),
        (
            'WITH r AS (UPDATE "mcp_app_request" SET "x" = 1 RETURNING id) INSERT INTO "mcp_app_event" SELECT 1 FROM r',
            "WITH INSERT INTO mcp_app_event, UPDATE mcp_app_request",
        ),
    ],
    ids=["select", "insert", "update", "delete", "transaction", "with"],
)
def test_a_statement_is_named_by_its_verb_and_table(statement: str, shape: str) -> None:
    assert wire.shape(statement) == shape


def test_what_is_heard_is_counted_by_who_said_it() -> None:
    heard = {(1, "LPUSH"): 2, (2, "LPUSH"): 3, (9, "GET"): 1}
    said = wire.by_role(heard, {1: "server", 2: "server"}, "short-lived")
    assert said == Counter({("server", "LPUSH"): 5, ("short-lived", "GET"): 1})


def test_statements_are_read_as_they_were_recorded(tmp_path: Path) -> None:
    path = tmp_path / "statements"
    assert recorded(path) == []
    path.write_text("".join(json.dumps([pid, "COMMIT"]) + "\n" for pid in (1, 2)))
    assert recorded(path) == [(1, "COMMIT"), (2, "COMMIT")]
