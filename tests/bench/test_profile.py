"""The statements and broker commands of a call are counted correctly. Nothing here is timed."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench import wire
from bench.machine import ROOT
from bench.peers.idleness import recorded

RECORDED = """
import sys
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
from bench.peers.site import statements
statements.record(sys.argv[1])
from django.db import connection, transaction
with transaction.atomic(), connection.cursor() as cursor:
    cursor.execute("SELECT  1")
connection.cursor().execute("SELECT 2")
"""
"""Runs in a process of its own, because recording lasts until the process ends."""


@pytest.mark.parametrize(
    ("statement", "shape"),
    [
        ('SELECT "mcp_app_tool"."name" FROM "mcp_app_tool" WHERE 1', "SELECT mcp_app_tool"),
        ('INSERT INTO "mcp_app_request" ("id") VALUES (%s)', "INSERT INTO mcp_app_request"),
        ("INSERT INTO mcp_submit_17 (id) VALUES (%s)", "INSERT INTO mcp_submit"),
        ('UPDATE "mcp_app_request" SET "status" = %s', "UPDATE mcp_app_request"),
        ('DELETE FROM "mcp_app_token" WHERE 1', "DELETE FROM mcp_app_token"),
        ("BEGIN IMMEDIATE", "BEGIN IMMEDIATE"),
        (
            'WITH r AS (UPDATE "mcp_app_request" SET "x" = 1 RETURNING id) INSERT INTO "mcp_app_event" SELECT 1 FROM r',
            "WITH INSERT INTO mcp_app_event, UPDATE mcp_app_request",
        ),
    ],
    ids=["select", "insert", "view", "update", "delete", "transaction", "with"],
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


def test_the_ends_of_transactions_are_recorded_as_the_statements_that_they_are(tmp_path: Path) -> None:
    path = tmp_path / "statements"
    subprocess.run([sys.executable, "-c", RECORDED, str(path)], cwd=ROOT, check=True, timeout=60)
    assert [statement for _, statement in recorded(path)] == ["BEGIN", "SELECT 1", "COMMIT", "SELECT 2"]
