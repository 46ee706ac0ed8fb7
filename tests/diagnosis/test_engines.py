"""What the site stands on: databases, their migrations and clocks, the broker, the channel layer."""

import gc
import re
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from mcp_app.diagnosis import broker, channel_layer, clocks, database, migrations
from mcp_app.diagnosis.findings import State
from tests.diagnosis.conftest import only, presence, seen
from tests.faults.failing_database import write_lock
from tests.lifecycle.brokers import celery_on, refusing_port, silent_port


@pytest.fixture
def elsewhere(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """Where the database "default" is, for one test: a file of its own, which is not there."""
    values = connections["default"].settings_dict
    before, path = values["NAME"], tmp_path / "default.sqlite3"
    connections["default"].close()
    values["NAME"] = str(path)
    yield path
    connections["default"].close()
    values["NAME"] = before


@pytest.fixture
def folder() -> Iterator[Path]:
    """The embedded broker's folder, put right again."""
    found = Path(current_app.conf.broker_transport_options["folder"])
    shutil.rmtree(found, ignore_errors=True)
    yield found
    if found.is_file():
        found.unlink()
    shutil.rmtree(found, ignore_errors=True)


def test_databases_that_answer_and_can_be_written_are_told_with_their_engine_and_mode() -> None:
    of_app, of_site = database.look(seen())
    for finding, alias in ((of_app, "mcp"), (of_site, "default")):
        assert finding.state == State.OK
        assert re.match(rf"{alias}: SQLite [\d.]+, WAL, at \S+, answers in \d+\.\d ms\.$", finding.found)


def test_a_database_file_that_is_not_there_is_told_and_not_made(elsewhere: Path) -> None:
    _, finding = database.look(seen())
    assert finding.state == State.FAILED
    assert finding.found == f"default: the file {elsewhere} is not there."
    assert "python manage.py migrate --database default" in finding.remedy
    assert not elsewhere.exists()


def test_a_file_that_is_no_database_is_told(elsewhere: Path) -> None:
    elsewhere.write_bytes(b"no database at all" * 100)
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        _, finding = database.look(seen())
        gc.collect()  # Django leaves a connection that fails as it is made to be collected
    assert finding.state == State.FAILED
    assert "file is not a database" in finding.found


def test_a_lock_that_is_held_for_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    with write_lock():
        finding = next(iter(database.look(seen())))
    assert finding.state == State.FAILED
    assert "For 0.1 s nobody could write: database is locked." in finding.found


def test_a_database_without_a_write_ahead_log_is_told(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", {})
    with closing(sqlite3.connect(elsewhere)) as made:
        made.execute("CREATE TABLE t (a)")
    _, finding = database.look(seen())
    assert finding.state == State.WARNING
    assert "DELETE" in finding.found
    assert "journal_mode=WAL" in finding.remedy


def test_migrations_that_are_not_applied_are_counted_for_each_database() -> None:
    assert {finding.state for finding in migrations.look(seen())} == {State.OK}
    applied = MigrationRecorder(connections["mcp"]).migration_qs.filter(app="mcp_app", name="0002_audit_triggers")
    kept = list(applied)
    applied.delete()
    try:
        of_app, of_site = migrations.look(seen())
        assert (of_app.state, of_app.found) == (State.FAILED, "mcp: 1 migration is not applied.")
        assert of_app.remedy == "Run `python manage.py migrate --database mcp`."
        assert of_site.state == State.OK
    finally:
        MigrationRecorder(connections["mcp"]).migration_qs.bulk_create(kept)


def test_the_databases_clock_is_this_machines_where_it_is_a_file() -> None:
    found = only(clocks.look(seen()), State.OK).found
    assert re.match(r"The database's clock is \d+ ms (ahead of|behind) this machine's, give or take \d+ ms\.$", found)


def test_the_clock_of_another_host_is_told_by_its_best_answer_and_complained_of_beyond_doubt() -> None:
    answers = [
        presence(hostname="near", ahead=0.2),
        presence(hostname="far", ahead=-9.0, doubt=8.5),
        presence(hostname="late", ahead=-3.0, doubt=0.5),
        presence(hostname="late", ahead=-2.0, doubt=0.1),
    ]
    _, near, far, late = clocks.look(seen(*answers))
    assert (near.state, near.found) == (
        State.OK,
        "The clock of near is 200 ms ahead of this machine's, give or take 100 ms.",
    )
    assert far.state == State.OK
    assert late.state == State.WARNING
    assert late.found == "The clock of late is 2000 ms behind this machine's, give or take 100 ms."
    assert "NTP" in late.remedy


def test_a_folder_that_can_be_written_to_is_a_broker_that_answers(folder: Path) -> None:
    folder.mkdir()
    found = only(broker.look(seen()), State.OK).found
    assert re.match(rf"{re.escape(str(folder))}: can be written to in \d+\.\d ms\.$", found)
    assert not list((folder / "tmp").iterdir())


def test_a_folder_that_is_not_there_is_told_and_not_made(folder: Path) -> None:
    finding = only(broker.look(seen()), State.WARNING)
    assert finding.found.startswith(f"{folder}: the folder is not there")
    assert "mcp worker" in finding.remedy
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_to_has_failed(folder: Path) -> None:
    folder.mkdir()
    (folder / "tmp").write_text("in the way of a folder")
    finding = only(broker.look(seen()), State.FAILED)
    assert "does not answer" in finding.found


@pytest.mark.parametrize("kind", ["redis", "amqp"])
def test_a_broker_that_refuses_has_failed_and_its_password_is_not_told(kind: str) -> None:
    with refusing_port() as port, celery_on(f"{kind}://mcp:geheim@127.0.0.1:{port}//"):
        finding = only(broker.look(seen()), State.FAILED)
    assert finding.found.startswith(f"{kind}://mcp@127.0.0.1:{port}/")
    assert "geheim" not in finding.found
    assert finding.remedy == "Start it, or correct CELERY_BROKER_URL."


@pytest.mark.parametrize("kind", ["redis", "amqp"])
def test_a_broker_that_says_nothing_is_waited_for_within_its_bound(kind: str, configure: Any) -> None:
    configure(PUBLISH_TIMEOUT=0.4)
    with silent_port() as port, celery_on(f"{kind}://127.0.0.1:{port}//"):
        only(broker.look(seen()), State.FAILED)


def test_no_layer_is_needed_where_one_host_is_at_work() -> None:
    only(channel_layer.look(seen()), State.OK)


def test_a_layer_is_missed_where_several_hosts_are_at_work() -> None:
    finding = only(channel_layer.look(seen(presence(hostname="other"))), State.WARNING)
    assert "2 hosts are at work" in finding.found
    assert "CHANNEL_LAYERS" in finding.remedy


def test_a_layer_on_an_engine_that_is_not_there_has_failed(settings: Any) -> None:
    pytest.importorskip("channels_redis", reason="the basic tests need no client of a real engine")
    with refusing_port() as port:
        hosts = [{"address": f"redis://127.0.0.1:{port}/0", "socket_timeout": 15}]
        layer = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": hosts}}
        settings.CHANNEL_LAYERS = {"default": layer}
        finding = only(channel_layer.look(seen()), State.FAILED)
    assert finding.found.startswith("RedisChannelLayer: a message sent through it does not arrive (")
