"""Checks of databases, migrations, clocks, the broker and the channel layer."""

import gc
import re
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import current_app
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from mcp_app.diagnosis import broker, channel_layer, clocks, database, file_permissions, migrations
from mcp_app.diagnosis.examination import State
from tests.diagnosis.conftest import answer, only, shared
from tests.support.brokers import celery_on, refusing_port, silent_port
from tests.support.failing_database import write_lock
from tests.support.site.services import REDIS


@pytest.fixture
def elsewhere(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """The path of the database "default" for one test: a file that does not exist."""
    values = connections["default"].settings_dict
    before, path = values["NAME"], tmp_path / "default.sqlite3"
    connections["default"].close()
    values["NAME"] = str(path)
    yield path
    connections["default"].close()
    values["NAME"] = before


@pytest.fixture
def folder() -> Iterator[Path]:
    """The embedded broker's folder, whose permissions are restored afterwards."""
    found = Path(current_app.conf.broker_transport_options["folder"])
    shutil.rmtree(found, ignore_errors=True)
    yield found
    if found.is_file():
        found.unlink()
    shutil.rmtree(found, ignore_errors=True)


def test_a_usable_database_is_reported_with_its_engine_and_mode() -> None:
    of_app, of_site = database.check(shared())
    for finding, alias in ((of_app, "mcp"), (of_site, "default")):
        assert finding.state == State.OK
        assert re.match(rf"{alias}: SQLite [\d.]+, WAL, .*/\S+, .* \d+\.\d ms\.$", finding.found)


def test_a_missing_database_file_is_reported_and_not_created(elsewhere: Path) -> None:
    _, finding = database.check(shared())
    assert finding.state == State.FAILED
    assert all(fact in finding.found for fact in ("default: ", f" {elsewhere} ", "not there"))
    assert "python manage.py migrate --database default" in finding.remedy
    assert not elsewhere.exists()


def test_a_file_that_is_no_database_is_reported(elsewhere: Path) -> None:
    elsewhere.write_bytes(b"no database at all" * 100)
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        _, finding = database.check(shared())
        gc.collect()  # If a connection cannot be opened, Django leaves it to the garbage collector.
    assert finding.state == State.FAILED
    assert "file is not a database" in finding.found


def test_a_lock_that_is_held_for_too_long_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    with write_lock():
        finding = next(iter(database.check(shared())))
    assert finding.state == State.FAILED
    assert re.search(r" 0\.1 s\b.*: database is locked\.", finding.found)


@pytest.fixture
def without_log(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database "default" for one test has no write-ahead log."""
    monkeypatch.setitem(connections["default"].settings_dict, "OPTIONS", {})
    with closing(sqlite3.connect(elsewhere)) as made:
        made.execute("CREATE TABLE t (a)")


@pytest.mark.usefixtures("without_log")
def test_a_database_without_a_write_ahead_log_is_reported_if_it_has_this_apps_rows(configure: Any) -> None:
    configure(DATABASE="default")
    finding = only(database.check(shared()), State.WARNING)
    assert "DELETE" in finding.found
    assert "journal_mode=WAL" in finding.remedy


@pytest.mark.usefixtures("without_log")
def test_the_sites_own_database_needs_no_write_ahead_log() -> None:
    _, of_site = database.check(shared())
    assert of_site.state == State.OK
    assert "DELETE" in of_site.found


def test_a_database_that_every_user_of_the_machine_can_read_is_reported(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections["default"].ensure_connection()
    elsewhere.chmod(0o644)
    monkeypatch.setattr(file_permissions, "others_may", lambda permission, path: Path(path).stat().st_mode & permission)
    _, finding = database.check(shared())
    assert finding.state == State.WARNING
    assert re.search(r"Every user\b.* read\b", finding.found)
    assert f"chmod o= {elsewhere}*" in finding.remedy


def test_permissions_do_not_count_below_a_folder_that_others_cannot_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # pytest's folder above it is not accessible to others
    file = tmp_path / "file"
    file.touch(0o644)
    assert not file_permissions.others_may(file_permissions.READ, str(file))
    assert file_permissions.others_may(file_permissions.READ, "/bin/sh")
    assert not file_permissions.others_may(file_permissions.WRITE, "/bin/sh")
    assert not file_permissions.others_may(file_permissions.READ, str(tmp_path / "nothing"))


def test_migrations_that_are_not_applied_are_counted_for_each_database() -> None:
    assert {finding.state for finding in migrations.check(shared())} == {State.OK}
    applied = MigrationRecorder(connections["mcp"]).migration_qs.filter(app="mcp_app", name="0002_audit_triggers")
    kept = list(applied)
    applied.delete()
    try:
        of_app, of_site = migrations.check(shared())
        assert of_app.state == State.FAILED
        assert re.match(r"mcp: 1 migration\b.* not applied", of_app.found)
        assert "`python manage.py migrate --database mcp`" in of_app.remedy
        assert of_site.state == State.OK
    finally:
        MigrationRecorder(connections["mcp"]).migration_qs.bulk_create(kept)


def test_the_clock_of_a_database_file_is_this_machines() -> None:
    found = only(clocks.check(shared()), State.OK).found
    assert re.search(r"database's clock\b.* \d+ ms (ahead|behind)\b.* \d+ ms\.$", found)


def test_another_hosts_clock_is_judged_by_its_most_precise_answer() -> None:
    answers = [
        answer(hostname="near", ahead=0.2),
        answer(hostname="far", ahead=-9.0, doubt=8.5),
        answer(hostname="late", ahead=-3.0, doubt=0.5),
        answer(hostname="late", ahead=-2.0, doubt=0.1),
    ]
    _, near, far, late = clocks.check(shared(*answers))
    assert near.state == far.state == State.OK
    assert re.search(r"\bnear\b.* 200 ms ahead\b.* 100 ms", near.found)
    assert late.state == State.WARNING
    assert re.search(r"\blate\b.* 2000 ms behind\b.* 100 ms", late.found)
    assert "NTP" in late.remedy


def test_a_writable_broker_folder_is_ok(folder: Path) -> None:
    folder.mkdir()
    found = only(broker.check(shared()), State.OK).found
    assert re.match(rf"{re.escape(str(folder))}: .*\bwritten\b.* \d+\.\d ms\.$", found)
    assert not list((folder / "tmp").iterdir())


def test_a_missing_broker_folder_is_reported_and_not_created(folder: Path) -> None:
    finding = only(broker.check(shared()), State.WARNING)
    assert finding.found.startswith(f"{folder}: ")
    assert "not there" in finding.found
    assert "mcp worker" in finding.remedy
    assert not folder.exists()


def test_a_broker_folder_that_cannot_be_written_to_has_failed(folder: Path) -> None:
    folder.mkdir()
    (folder / "tmp").write_text("in the way of a folder")
    finding = only(broker.check(shared()), State.FAILED)
    assert "does not respond" in finding.found


@pytest.mark.parametrize("kind", ["redis", "amqp"])
def test_a_broker_that_refuses_connections_has_failed_and_its_password_is_not_shown(kind: str) -> None:
    with refusing_port() as port, celery_on(f"{kind}://mcp:geheim@127.0.0.1:{port}//"):
        finding = only(broker.check(shared()), State.FAILED)
    assert finding.found.startswith(f"{kind}://mcp@127.0.0.1:{port}/")
    assert "geheim" not in finding.found
    assert "CELERY_BROKER_URL" in finding.remedy


@pytest.mark.parametrize("kind", ["redis", "amqp"])
def test_a_broker_that_does_not_respond_fails_after_a_timeout(kind: str, configure: Any) -> None:
    configure(PUBLISH_TIMEOUT=0.4)
    with silent_port() as port, celery_on(f"{kind}://127.0.0.1:{port}//"):
        only(broker.check(shared()), State.FAILED)


@pytest.mark.engines
def test_redis_is_reported_with_the_setting_by_which_busy_workers_fetch_no_calls(configure: Any) -> None:
    with celery_on(REDIS):
        assert "CELERY_WORKER_DISABLE_PREFETCH = True" in only(broker.check(shared()), State.OK).found
        configure(WORKERS_TAKE_TOOLS=False)
        assert "PREFETCH" not in only(broker.check(shared()), State.OK).found
        configure(WORKERS_TAKE_TOOLS=True)
        current_app.conf.worker_disable_prefetch = True
        assert "PREFETCH" not in only(broker.check(shared()), State.OK).found


def test_one_host_needs_no_channel_layer() -> None:
    only(channel_layer.check(shared()), State.OK)


def test_several_hosts_without_a_channel_layer_are_a_warning() -> None:
    finding = only(channel_layer.check(shared(answer(hostname="other"))), State.WARNING)
    assert "2 hosts" in finding.found
    assert "CHANNEL_LAYERS" in finding.remedy


def test_a_channel_layer_whose_server_is_down_has_failed(settings: Any) -> None:
    pytest.importorskip("channels_redis", reason="the basic tests need no client of a real engine")
    with refusing_port() as port:
        hosts = [{"address": f"redis://127.0.0.1:{port}/0", "socket_timeout": 15}]
        layer = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": hosts}}
        settings.CHANNEL_LAYERS = {"default": layer}
        finding = only(channel_layer.check(shared()), State.FAILED)
    assert finding.found.startswith("RedisChannelLayer: ")
    assert "not arrive" in finding.found


@pytest.mark.parametrize(
    ("options", "is_told"),
    [({}, True), ({"server_side_binding": True}, True), ({"server_side_binding": True, "prepare_threshold": 5}, False)],
)
def test_missing_prepared_statements_on_postgresql_are_reported(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], is_told: bool
) -> None:
    answers = {"SHOW server_version": "15.20", "SHOW max_connections": "100", "SHOW transaction_read_only": "off"}
    monkeypatch.setattr(database, "_query", lambda connection, statement: answers.get(statement, 3))
    connection: Any = SimpleNamespace(settings_dict={"OPTIONS": options})
    finding = database._check_postgresql("default", connection, "answers in 0.2 ms")
    assert finding.state == State.OK
    assert (database.UNPREPARED in finding.found) == is_told
