"""The system checks. Each finds one mistake and names the lines to add."""

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from django.db import connections
from kombu import Queue, serialization
from pytest_django import Settings

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.checks import celery as celery_checks
from mcp_app.checks import channels as channels_checks
from mcp_app.checks import databases as database_checks
from mcp_app.checks import lines
from mcp_app.conf import settings as own_settings
from mcp_app.execution.pools import async_pool
from mcp_app.site_defaults import CELERY_APP
from mcp_app.tools import tool
from mcp_app.transport.consumers import MCPConsumer
from tests.management.conftest import manage
from tests.management.findings import found, only_hint

LAYER = "channels_redis.core.RedisChannelLayer"


@pytest.fixture
def database(settings: Settings) -> Iterator[dict[str, Any]]:
    """The settings of the database with the alias "mcp", which a test may change."""
    values = connections["mcp"].settings_dict
    before = dict(values)
    yield values
    values.clear()
    values.update(before)


def test_example_site_passes() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("change", "expected", "line"),
    [
        ({"MCP": []}, "mcp_app.E001", "MCP = {"),
        ({"MCP": {"DATABSE": "mcp"}}, "mcp_app.E001", "correct the name"),
        ({"MCP": {"DATABASE": "elsewhere"}}, "mcp_app.E002", 'DATABASES["elsewhere"] = {'),
        ({"DATABASE_ROUTERS": []}, "mcp_app.E003", 'DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"]'),
        ({"MCP": {}, "DATABASE_ROUTERS": []}, "mcp_app.W001", '"NAME": BASE_DIR / "mcp.sqlite3",'),
        ({"ASGI_APPLICATION": "mcpsite.asgy.application"}, "mcp_app.W032", "mcp_application(application)"),
    ],
)
def test_mistake_in_the_settings_is_found(settings: Settings, change: dict[str, Any], expected: str, line: str) -> None:
    for name, value in change.items():
        merged = {"ALLOW_ANONYMOUS": True, **value} if isinstance(value, dict) else value
        setattr(settings, name, merged)
    assert line in only_hint(expected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"KEEP_ALIVE": "15"}, "mcp_app.E006"),
        ({"TOOL_RATE": "10/minute"}, "mcp_app.E007"),
        ({"TOOL_CONCURRENCY": 0}, "mcp_app.E007"),
        ({"MAX_DEPTH": 1.5}, "mcp_app.E006"),
        ({"PAGE_SIZE": True}, "mcp_app.E006"),
        ({"SESSIONLESS_DISCONNECT_CANCELS": "no"}, "mcp_app.E006"),
        ({"MAX_QUEUE_SECONDS": float("inf")}, "mcp_app.E006"),
        ({"ALLOWED_ORIGINS": "https://example.com"}, "mcp_app.E006"),
        ({"ALLOWED_HOSTS": [b"example.com"]}, "mcp_app.E006"),
        ({"COOPERATIVE_GRACE": -1}, "mcp_app.E007"),
        ({"PAGE_SIZE": 0}, "mcp_app.E007"),
        ({"HARD_GRACE": 0.05}, "mcp_app.E007"),
        ({"LOST_AFTER": 2.0}, "mcp_app.E007"),
        ({"MAX_HELD_BODY_BYTES": 1024}, "mcp_app.E007"),
        ({"QUEUE": "no spaces"}, "mcp_app.E007"),
        ({"LOG_LEVEL": "info"}, "mcp_app.E007"),
        ({"ALLOWED_ORIGINS": ["example.com"]}, "mcp_app.E007"),
        ({"ALLOW_ANONYMOUS": "everybody", "AUTHENTICATOR": "mcp_app.auth.tokens.bearer"}, "mcp_app.E007"),
        ({"SERVER_ICONS": "https://example.com/i.png"}, "mcp_app.E006"),
        ({"SERVER_ICONS": [{"src": "http://example.com/i.png"}]}, "mcp_app.E007"),
        ({"SERVER_ICONS": [{"mimeType": "image/png"}]}, "mcp_app.E007"),
        ({"AUDIT_RETENTION_DAYS": 89}, "mcp_app.E007"),
        ({"REQUEST_RETENTION_DAYS": None}, "mcp_app.E007"),
    ],
)
def test_value_that_makes_no_sense_is_found(configure: Any, change: dict[str, Any], expected: str) -> None:
    configure(**change)
    only_hint(expected)
    [message] = found()
    assert f'MCP["{next(iter(change))}"]' in message.msg


@pytest.mark.parametrize(
    "change",
    [
        {"HARD_GRACE": 0, "COOPERATIVE_GRACE": 0},
        {"SERVER_TITLE": None},
        {"SERVER_ICONS": [{"src": "data:image/png;base64,AA=="}]},
        {"PAGE_SIZE": 1},
        {"AUDIT_RETENTION_DAYS": None},
    ],
)
def test_unusual_value_that_makes_sense_passes(configure: Any, change: dict[str, Any]) -> None:
    configure(**change)
    assert found() == []


def test_database_in_memory_cannot_be_shared_by_processes(database: dict[str, Any]) -> None:
    database["NAME"] = ":memory:"
    assert '"NAME": BASE_DIR / "mcp.sqlite3",' in only_hint("mcp_app.E008")


def test_second_alias_for_the_same_file_is_no_second_file(database: dict[str, Any]) -> None:
    database["NAME"] = connections["default"].settings_dict["NAME"]
    hint = only_hint("mcp_app.W001")
    assert '"NAME": BASE_DIR / "mcp.sqlite3",' in hint
    assert "DATABASE_ROUTERS" not in hint


@pytest.mark.parametrize(
    "options", [{}, {"transaction_mode": "IMMEDIATE"}, {"init_command": "PRAGMA journal_mode=WAL"}]
)
def test_sqlite_that_refuses_a_second_writer_is_found(database: dict[str, Any], options: dict[str, str]) -> None:
    database["OPTIONS"] = options
    assert "PRAGMA journal_mode=WAL;" in only_hint("mcp_app.W003")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of this machine can enter, unlike pytest's folders."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize(("mode", "is_found"), [(0o644, True), (0o640, False), (0o600, False)])
def test_database_that_every_user_can_read_is_found(
    database: dict[str, Any], open_folder: Path, mode: int, is_found: bool
) -> None:
    file = open_folder / "mcp.sqlite3"
    file.touch()
    file.chmod(mode)
    database["NAME"] = str(file)
    assert [message.id for message in found()] == ["mcp_app.W040"] * is_found
    open_folder.chmod(0o700)
    assert found() == []


@pytest.mark.parametrize(("mode", "is_found"), [(0o777, True), (0o755, False), (0o700, False)])
def test_broker_folder_that_every_user_can_write_to_is_found(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path, mode: int, is_found: bool
) -> None:
    site = Celery("site", broker="mcpfs://", set_as_current=False)
    site.conf.broker_transport_options = {"folder": str(open_folder)}
    monkeypatch.setattr(celery_checks, "current_app", site)
    open_folder.chmod(mode)
    assert [message.id for message in celery_checks.check_broker()] == ["mcp_app.W041"] * is_found


@pytest.mark.parametrize(
    ("host", "options", "is_found"),
    [
        ("database.example.com", {}, True),
        ("database.example.com", {"sslmode": "require"}, True),
        ("database.example.com", {"tcp_user_timeout": 15_000}, False),
        ("database.example.com", {"keepalives_idle": 15}, False),
        ("database.example.com", {"service": "mysite"}, False),
        ("127.0.0.1", {}, False),
        ("/run/postgresql", {}, False),
        ("", {}, False),
    ],
)
def test_connection_that_the_network_may_forget_is_found(
    monkeypatch: pytest.MonkeyPatch, host: str, options: dict[str, Any], is_found: bool
) -> None:
    own = SimpleNamespace(vendor="postgresql", settings_dict={"HOST": host, "OPTIONS": options})
    monkeypatch.setattr(database_checks, "connections", {own_settings.DATABASE: own})
    messages = database_checks.check_database()
    assert [message.id for message in messages] == ["mcp_app.W017"] * is_found
    assert all('"tcp_user_timeout": 15_000' in str(message.hint) for message in messages)


def test_migrate_makes_no_table_on_an_engine_that_is_not_served_and_says_where_the_rows_can_be(tmp_path: Path) -> None:
    done = manage(tmp_path, "migrate", DJANGO_SETTINGS_MODULE="tests.management.unserved_settings")
    assert done.returncode == 1
    assert re.search(r"mcp_app\.E012\b.*'default'.*\btests\.management\.unserved_engine\b", done.stderr)
    assert 'DATABASES["mcp"] = {' in done.stderr
    assert 'MCP = {"DATABASE": "mcp", …}' in done.stderr
    assert "DATABASE_ROUTERS" not in done.stderr
    with closing(sqlite3.connect(tmp_path / "site.sqlite3")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []


@pytest.mark.parametrize("vendor", ["oracle", "microsoft"])
def test_the_hint_names_an_alias_that_is_on_a_served_engine(monkeypatch: pytest.MonkeyPatch, vendor: str) -> None:
    other = SimpleNamespace(vendor=vendor, settings_dict={"ENGINE": f"django.db.backends.{vendor}"})
    served = SimpleNamespace(vendor="postgresql", settings_dict={"ENGINE": "django.db.backends.postgresql"})
    monkeypatch.setattr(database_checks, "connections", {own_settings.DATABASE: other, "warehouse": served})
    [message] = database_checks.check_database()
    assert message.id == "mcp_app.E012"
    assert 'MCP = {"DATABASE": "warehouse", …}' in str(message.hint)


@pytest.mark.parametrize(
    "lists",
    [
        {"TENANT_APPS": ["shop", "django.contrib.auth"]},
        {"TENANT_APPS": ["django.contrib.auth.apps.AuthConfig"]},
        {"TENANT_TYPES": {"public": {"APPS": []}, "customer": {"APPS": ["django.contrib.auth"]}}},
    ],
)
def test_users_of_each_tenant_are_no_users_of_the_site(settings: Settings, lists: dict[str, Any]) -> None:
    for name, value in lists.items():
        setattr(settings, name, value)
    assert 'Move "django.contrib.auth" from TENANT_APPS to SHARED_APPS' in only_hint("mcp_app.E034")


@pytest.mark.parametrize(
    "lists",
    [
        {"TENANT_APPS": ["shop"]},
        {"TENANT_TYPES": {"public": {"APPS": ["django.contrib.auth"]}, "customer": {"APPS": ["shop"]}}},
    ],
)
def test_users_that_all_tenants_share_are_users_of_the_site(settings: Settings, lists: dict[str, Any]) -> None:
    for name, value in lists.items():
        setattr(settings, name, value)
    assert found() == []


def test_celery_app_that_the_site_does_not_import_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_checks, "current_app", Celery(CELERY_APP, set_as_current=False))
    monkeypatch.setattr(lines, "package", lambda: "mcpsite")
    [message] = celery_checks.check_app()
    assert message.id == "mcp_app.W043"
    assert "from mcpsite.celery import app as celery_app" in str(message.hint)


def test_site_without_a_celery_app_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_checks, "current_app", Celery(CELERY_APP, set_as_current=False))
    assert celery_checks.check_app() == []


def test_celery_app_that_does_not_read_the_settings_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    other = Celery("other", broker="redis://elsewhere", set_as_current=False)
    monkeypatch.setattr(celery_checks, "current_app", other)
    assert [message.id for message in celery_checks.check_app()] == ["mcp_app.W034"]


def site_app(**options: Any) -> Celery:
    """A Celery app with the settings of this site, except for `options`."""
    app = Celery("site", set_as_current=False)
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.conf.update(options)
    return app


@pytest.mark.parametrize(
    ("options", "expected", "line"),
    [
        ({"broker_url": None}, "mcp_app.W010", 'CELERY_BROKER_URL = "mcpfs://"'),
        ({"broker_url": "memory://"}, "mcp_app.W011", 'CELERY_BROKER_URL = "mcpfs://"'),
        ({"broker_url": "filesystem://"}, "mcp_app.W011", 'CELERY_BROKER_URL = "mcpfs://"'),
        ({"broker_transport_options": {}}, "mcp_app.E013", 'CELERY_BROKER_TRANSPORT_OPTIONS = {"folder"'),
        ({"broker_transport_options": {"folder": "broker"}}, "mcp_app.W037", 'str(BASE_DIR / "broker")'),
        ({"accept_content": ["pickle"]}, "mcp_app.E014", "CELERY_ACCEPT_CONTENT = ['pickle', 'json']"),
        ({"accept_content": []}, "mcp_app.E014", "CELERY_ACCEPT_CONTENT = ['json']"),
        ({"task_serializer": "yaml"}, "mcp_app.E014", "CELERY_ACCEPT_CONTENT = ['json', 'yaml']"),
        ({"task_serializer": "unheard-of"}, "mcp_app.E014", "CELERY_ACCEPT_CONTENT = ['json', 'unheard-of']"),
        (
            {"task_serializer": "msgpack", "accept_content": ["application/x-msgpack"]},
            "mcp_app.W035",
            "CELERY_ACCEPT_CONTENT = ['application/x-msgpack', 'json']",
        ),
        pytest.param(
            {"accept_content": ["json", "pickle"]},
            "mcp_app.W012",
            "CELERY_ACCEPT_CONTENT = ['json']",
            marks=pytest.mark.fault("G14"),
        ),
        pytest.param(
            {"accept_content": ["application/json", "application/x-yaml"]},
            "mcp_app.W012",
            "CELERY_ACCEPT_CONTENT = ['application/json']",
            marks=pytest.mark.fault("G14"),
        ),
        ({"task_create_missing_queues": False}, "mcp_app.E018", 'Queue("mcp")'),
        ({"worker_pool": "gevent"}, "mcp_app.W006", "manage.py mcp worker"),
        ({"worker_pool": "threads"}, "mcp_app.W006", "--pool"),
        ({"worker_pool": async_pool.NAME}, "mcp_app.W006", "--pool"),
        ({"worker_max_tasks_per_child": 1}, "mcp_app.W021", "Raise"),
        ({"worker_max_memory_per_child": 1000}, "mcp_app.W021", "Raise"),
    ],
)
def test_mistake_in_celerys_settings_is_found(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: str, line: str
) -> None:
    monkeypatch.setattr(celery_checks, "current_app", site_app(**options))
    # Another check compares the broker with which Celery was configured.
    hints = {message.id: str(message.hint) for message in found() if message.id != "mcp_app.W034"}
    assert list(hints) == [expected]
    assert line in hints[expected]


@pytest.mark.parametrize(
    "options",
    [
        {"accept_content": ["application/json"]},
        {"accept_content": ["application/json", "msgpack"], "task_serializer": "application/x-msgpack"},
        {"accept_content": ["json", "signed"], "task_serializer": "signed"},
        {"accept_content": ["json", "application/x-signed-json"], "task_serializer": "signed"},
        {"accept_content": ["json", "of-workers-only"]},
    ],
)
def test_serializers_are_known_by_name_and_by_content_type(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    serialization.register("signed", json.dumps, json.loads, content_type="application/x-signed-json")
    try:
        monkeypatch.setattr(celery_checks, "current_app", site_app(**options))
        assert celery_checks.check_messages() == []
    finally:
        serialization.unregister("signed")


def test_queue_of_one_tool_that_may_not_be_made_does_not_stop_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    app = site_app(task_create_missing_queues=False, task_queues=[Queue(own_settings.QUEUE)])
    monkeypatch.setattr(celery_checks, "current_app", app)
    with isolated_registries():
        tool(name="usual")(lambda: "")
        tool(name="other", queue="reports")(lambda: "")
        [message] = celery_checks.check_queues()
    assert (message.id, 'CELERY_TASK_QUEUES += (Queue("reports"),)' in str(message.hint)) == ("mcp_app.W036", True)


def test_processes_that_live_for_many_calls_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Celery("site", set_as_current=False)
    site.config_from_object("django.conf:settings", namespace="CELERY")
    site.conf.update(worker_max_tasks_per_child=100, worker_max_memory_per_child=10_000_000)
    monkeypatch.setattr(celery_checks, "current_app", site)
    assert celery_checks.check_workers() == []


@pytest.mark.parametrize(
    ("base", "path", "folder"),
    [
        (Path("/srv/site"), 'BASE_DIR / "mcp.sqlite3"', 'str(BASE_DIR / "broker")'),
        ("/srv/site", 'os.path.join(BASE_DIR, "mcp.sqlite3")', 'os.path.join(BASE_DIR, "broker")'),
        (None, repr(str(Path.cwd() / "mcp.sqlite3")), repr(str(Path.cwd() / "broker"))),
    ],
)
def test_hints_write_paths_as_the_sites_settings_can(settings: Settings, base: object, path: str, folder: str) -> None:
    settings.BASE_DIR = base
    assert f'    "NAME": {path},' in lines.sqlite_database("mcp")
    assert lines.broker()[1] == f'CELERY_BROKER_TRANSPORT_OPTIONS = {{"folder": {folder}}}'


@pytest.mark.parametrize(
    ("module", "file", "may_import", "package"),
    [
        ("tests.settings", "tests/settings.py", False, "tests"),
        ("tests.acceptance.settings", "tests/acceptance/settings.py", True, "tests"),
        ("tests.acceptance", "tests/acceptance/__init__.py", True, "tests"),
        ("local_settings", "local_settings.py", False, "mcpsite"),
    ],
)
def test_hints_name_the_settings_of_a_site_that_has_them_in_several_files(
    monkeypatch: pytest.MonkeyPatch, module: str, file: str, may_import: bool, package: str
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", module)
    place, line = lines.in_settings("X = 1").splitlines()
    assert f" {file}" in place
    assert ("imports" in place) == may_import
    assert line == "    X = 1"
    assert lines.package() == package


def test_application_without_the_endpoint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found() == []  # imports the application, which creates its endpoint
    monkeypatch.setattr(MCPConsumer, "mounted", set())
    assert "from mcp_app.routing import mcp_application" in only_hint("mcp_app.W033")


@pytest.mark.engines
@pytest.mark.skipif(channels_checks.redis_major() < 8, reason="redis-py 8 is not installed")
@pytest.mark.parametrize(
    ("hosts", "passes"),
    [
        (["redis://127.0.0.1"], False),
        ([{"address": "redis://127.0.0.1"}], False),
        ([{"address": "redis://127.0.0.1", "socket_timeout": 5}], False),
        ([{"address": "redis://127.0.0.1", "socket_timeout": 15}], True),
        ([{"address": "redis://127.0.0.1", "socket_timeout": None}], True),
    ],
)
def test_layer_that_cannot_be_idle_is_found(settings: Settings, hosts: list[Any], passes: bool) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": LAYER, "CONFIG": {"hosts": hosts}}}
    if passes:
        assert found() == []
    else:
        assert '"socket_timeout": 15' in only_hint("mcp_app.W007")


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("dummy.DummyCache", ["mcp_app.W020"]),
        ("locmem.LocMemCache", ["mcp_app.W020"]),
        ("db.DatabaseCache", ["mcp_app.W020"]),
        ("redis.RedisCache", []),
    ],
)
def test_cache_that_cannot_count_for_a_rate_is_found(
    settings: Settings, configure: Any, backend: str, expected: list[str]
) -> None:
    settings.CACHES = {"default": {"BACKEND": f"django.core.cache.backends.{backend}", "LOCATION": "redis://nowhere"}}
    assert found() == []
    configure(TOOL_RATE="10/m")
    assert [message.id for message in found()] == expected


def test_layer_in_memory_passes(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    assert found() == []
