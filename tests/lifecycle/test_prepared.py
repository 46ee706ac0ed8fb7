"""Statements past Django's cursor: which PostgreSQL keeps, what follows where it lost them; what SQLite is given."""

import logging

import pytest
from django.db import DatabaseError, DataError, transaction
from django.test.utils import CaptureQueriesContext

from mcp_app import databases
from mcp_app.conf import settings
from mcp_app.lifecycle import prepared

SUM = "SELECT CAST(%s AS integer) + 1"
TOLD = "statements are not prepared any more"

on_postgresql = pytest.mark.skipif("databases.connection().vendor != 'postgresql'", reason="SQLite prepares its own")


@pytest.fixture(autouse=True)
def _ready(monkeypatch):
    """A connection that has prepared nothing, in a process that has not given up."""
    monkeypatch.setattr(prepared, "_given_up", type(prepared._given_up)())
    databases.connection().close()
    yield
    databases.connection().close()


def added(number: int, times: int = 1) -> int:
    for _ in range(times):
        [(result,)] = prepared.rows(databases.connection(), SUM, [number])
    return result


def said(statement: str) -> list[tuple]:
    with databases.connection().cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def kept() -> list[str]:
    return [statement for (statement,) in said("SELECT statement FROM pg_prepared_statements")]


def forget_behind_psycopg() -> None:
    """As another client's turn on a pooled connection does."""
    said("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")


def test_a_statement_returns_its_rows():
    assert added(1) == 2


def test_a_parameter_is_numbered_by_its_name_and_a_doubled_sign_is_one():
    text, names = prepared._numbered("SELECT %(a)s, %(b)s, %(a)s LIKE 'x%%'")
    assert (text, names) == ("SELECT $1, $2, $1 LIKE 'x%'", ("a", "b"))
    assert prepared._numbered("SELECT %s, %s")[0] == "SELECT $1, $2"


def test_sqlite_is_given_names_and_places_of_its_own():
    assert prepared._as_sqlite_has_it("SELECT %(a)s, %(a)s LIKE 'x%%', %s") == "SELECT :a, :a LIKE 'x%', ?"


def test_names_are_for_mappings():
    found = prepared.rows(databases.connection(), "SELECT %(b)s || 'x%%', %(a)s || ''", {"a": "1", "b": "2", "c": "3"})
    assert found == [("2x%", "1")]


def test_what_the_database_refuses_is_djangos_error():
    with pytest.raises(DatabaseError):
        prepared.rows(databases.connection(), "SELECT nothing FROM nowhere WHERE 1 = %s", [1])


def test_nothing_is_said_in_a_transaction_that_is_broken():
    with databases.atomic():
        transaction.set_rollback(True, using=settings.DATABASE)
        with pytest.raises(transaction.TransactionManagementError):
            added(1)


def test_who_looks_at_statements_sees_djangos():
    seen = []

    def look(execute, sql, params, many, context):
        seen.append((sql, list(params)))
        return execute(sql, params, many, context)

    connection = databases.connection()
    with connection.execute_wrapper(look), CaptureQueriesContext(connection) as captured:
        assert added(1) == 2
    assert seen == [(SUM, [1])]
    assert len(captured) == 1


@on_postgresql
def test_what_is_said_again_is_kept():
    added(1, times=prepared.THRESHOLD)
    assert kept() == []
    assert added(4) == 5
    assert kept() == ["SELECT CAST($1 AS integer) + 1"]


@on_postgresql
def test_nothing_is_kept_of_what_is_said_in_a_transaction_which_a_lost_statement_would_end():
    with transaction.atomic(using=databases.connection().alias):
        assert added(1, times=5) == 2
        assert kept() == []


@on_postgresql
def test_nothing_is_kept_where_connections_are_pooled_by_transaction(monkeypatch):
    monkeypatch.setitem(databases.connection().settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    assert added(1, times=5) == 2
    assert kept() == []


@on_postgresql
def test_a_site_that_has_said_how_often_is_asked_nothing(monkeypatch):
    monkeypatch.setitem(databases.connection().settings_dict["OPTIONS"], "prepare_threshold", None)
    databases.connection().close()
    assert added(1, times=5) == 2
    assert kept() == []


@on_postgresql
def test_a_statement_that_the_server_has_lost_is_said_in_full_from_then_on(caplog):
    caplog.set_level(logging.WARNING)
    added(1, times=5)
    forget_behind_psycopg()
    assert added(6, times=3) == 7
    assert [TOLD in record.message for record in caplog.records] == [True]
    assert kept() == []


@on_postgresql
def test_a_column_that_a_migration_has_changed_meanwhile_is_read_as_it_is_then():
    said("CREATE TABLE pit (depth varchar(5))")
    try:
        said("INSERT INTO pit VALUES ('three')")
        for _ in range(4):
            prepared.rows(databases.connection(), "SELECT depth FROM pit WHERE depth = %s", ["three"])
        # In a block, or psycopg would see that a table was altered.
        said("DO $$ BEGIN ALTER TABLE pit ALTER COLUMN depth TYPE varchar(9); END $$")
        assert prepared.rows(databases.connection(), "SELECT depth FROM pit WHERE depth = %s", ["three"]) == [
            ("three",)
        ]
    finally:
        said("DROP TABLE pit")


@on_postgresql
def test_what_else_is_wrong_with_a_statement_is_told():
    with pytest.raises(DataError):
        prepared.rows(databases.connection(), "SELECT 1 / %s::int", [0])
    assert added(1) == 2
