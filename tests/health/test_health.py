"""`live/` and `ready/` through the site's ASGI application: as Django's URLs, and before Django."""

import asyncio
import json
import logging
import re
import shutil
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from celery import _state as celery_state
from celery import current_app
from channels.testing import ApplicationCommunicator
from django.core.asgi import get_asgi_application
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from django.urls import include, path

from mcp_app.conf import Defaults
from mcp_app.routing import mcp_application
from mcp_app.transport import shutdown
from mcp_app.transport.http import readiness
from mcp_app.transport.server import current
from tests.docs.pages import executed, snippet
from tests.support.brokers import celery_on, silent_port

pytestmark = [pytest.mark.usefixtures("_new_process"), pytest.mark.django_db(transaction=True, databases="__all__")]

PATIENCE = 60.0
ALL_WELL = {"serving": "ok", "database": "ok", "migrations": "ok", "broker": "ok"}
DOORS = ("/health/{}/", "/probes/{}", "/probes/{}/")
"""Django's URLs of the example site, and the two ways to write what `mcp_application` serves."""


class Probe:
    """One request and its response."""

    def __init__(self, application: Any, path: str, method: str = "GET", host: str = "testserver") -> None:
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(b"host", host.encode())],
            "client": ("192.0.2.1", 4711),
        }
        self._application = ApplicationCommunicator(application, scope)

    async def answer(self) -> "Probe":
        await self._application.send_input({"type": "http.request", "body": b"", "more_body": False})
        start = await self._application.receive_output(PATIENCE)
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        part = await self._application.receive_output(PATIENCE)
        self.body = part.get("body", b"")
        assert not part.get("more_body")
        await self._application.wait(PATIENCE)
        return self

    @property
    def told(self) -> Any:
        return json.loads(self.body)


@pytest.fixture
def _new_process(settings: Any, configure: Any) -> Iterator[None]:
    """Drop the results of other tests, and allow more time on a busy machine."""
    settings.ALLOWED_HOSTS = ["testserver"]
    configure(READY_TIMEOUT=30.0)
    readiness.readiness.cache_clear()
    yield
    asyncio.run(readiness.readiness().close())
    readiness.readiness.cache_clear()


@pytest.fixture
def site() -> Any:
    """The site's application, made with the test's settings."""
    return mcp_application(get_asgi_application(), health="/probes/")


@pytest.fixture
def _no_database() -> Iterator[None]:
    """Make the site's own database a folder, which no connection can open."""
    values = connections["default"].settings_dict
    connections["default"].close()
    before, values["NAME"] = values["NAME"], "/"
    yield
    connections["default"].close()
    values["NAME"] = before


def ask(site: Any, path: str, method: str = "GET", host: str = "testserver") -> Probe:
    return run(Probe(site, path, method, host).answer())


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a new event loop, which stands for a server process."""

    async def play() -> Any:
        try:
            return await scenario
        finally:
            await shutdown.drain()

    return asyncio.run(play())


@pytest.mark.parametrize("door", DOORS)
def test_a_working_site_is_live_and_ready(site: Any, door: str) -> None:
    live, ready = ask(site, door.format("live")), ask(site, door.format("ready"))
    assert (live.status, live.told) == (200, {"live": True})
    assert (ready.status, ready.told) == (200, {"ready": True, "checks": ALL_WELL})
    for answer in (live, ready):
        assert "no-store" in answer.headers["cache-control"]
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("door", DOORS[:2])
@pytest.mark.parametrize("name", ["live", "ready"])
def test_head_is_answered_as_get_and_nothing_else_is_allowed(site: Any, door: str, name: str) -> None:
    assert ask(site, door.format(name), "HEAD").status == 200
    refused = ask(site, door.format(name), "POST")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.usefixtures("_no_database")
@pytest.mark.parametrize("door", DOORS[:2])
def test_without_a_database_the_process_is_live_and_not_ready(
    site: Any, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(site, door.format("live")).status == 200
    with caplog.at_level(logging.ERROR, "mcp_app.transport.http.readiness"):
        ready = ask(site, door.format("ready"))
    checks = {"serving": "ok", "database": "failed", "broker": "ok"}
    assert (ready.status, ready.told) == (503, {"ready": False, "checks": checks})
    [told] = [record.getMessage() for record in caplog.records if record.name == "mcp_app.transport.http.readiness"]
    assert told.startswith("not ready: database: default: SQLite cannot be used: unable to open database file")


def test_migrations_that_are_missing_make_it_not_ready(site: Any) -> None:
    applied = MigrationRecorder(connections["mcp"]).migration_qs.filter(app="mcp_app", name="0002_audit_triggers")
    kept = list(applied)
    applied.delete()
    try:
        ready = ask(site, "/health/ready/")
    finally:
        MigrationRecorder(connections["mcp"]).migration_qs.bulk_create(kept)
    assert (ready.status, ready.told["checks"]) == (503, {**ALL_WELL, "migrations": "failed"})


def test_tables_that_are_dropped_later_make_it_not_ready(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 0.0)
    assert ask(site, "/health/ready/").status == 200
    rename(to_away=True)
    try:
        assert ask(site, "/health/ready/").told["checks"]["migrations"] == "failed"
    finally:
        rename(to_away=False)
    assert ask(site, "/health/ready/").status == 200


def rename(*, to_away: bool) -> None:
    names = ("mcp_app_process", "mcp_app_process_away")
    before, after = names if to_away else reversed(names)
    with connections["mcp"].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {before} RENAME TO {after}")


def test_without_a_broker_it_is_not_ready_and_one_line_of_the_log_says_so(
    site: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 0.0)
    folder = Path(current_app.conf.broker_transport_options["folder"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    in_the_way = folder / "tmp"
    in_the_way.write_text("no folder")
    with caplog.at_level(logging.WARNING):
        answers = [ask(site, "/health/ready/") for _ in range(3)]
        in_the_way.unlink()
        assert ask(site, "/health/ready/").status == 200
    for answer in answers:
        assert (answer.status, answer.told["checks"]) == (503, {**ALL_WELL, "broker": "failed"})
        assert str(folder) not in answer.body.decode()
    failed, again = [record.getMessage() for record in caplog.records]
    assert failed.startswith(f"not ready: broker: {folder}: ")
    assert again == "ready again: broker"


def test_a_broker_that_does_not_respond_makes_it_not_ready_after_a_timeout(
    site: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(READY_TIMEOUT=0.5, PUBLISH_TIMEOUT=60.0)
    with silent_port() as port, celery_on(f"amqp://127.0.0.1:{port}//") as app:
        monkeypatch.setattr(celery_state, "default_app", app)  # the app of other threads
        ready = ask(site, "/health/ready/")
    assert (ready.status, ready.told["checks"]["broker"]) == (503, "failed")


def test_a_draining_process_is_live_and_not_ready_and_runs_no_checks(site: Any) -> None:
    async def scenario() -> tuple[Probe, Probe]:
        current().admission.draining = True
        return await Probe(site, "/health/live/").answer(), await Probe(site, "/health/ready/").answer()

    live, ready = run(scenario())
    assert live.status == 200
    assert (ready.status, ready.told) == (503, {"ready": False, "checks": {"serving": "failed"}})


def test_simultaneous_probes_share_one_run_of_the_checks(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    check = readiness.database.check_quickly
    monkeypatch.setattr(readiness.database, "check_quickly", lambda: runs.append(1) or check())
    monkeypatch.setattr(readiness, "KEPT_SECONDS", 60.0)

    async def scenario() -> list[int]:
        at_once = await asyncio.gather(
            *(Probe(site, door.format("ready")).answer() for door in DOORS for _ in range(5))
        )
        return [probe.status for probe in (*at_once, await Probe(site, "/health/ready/").answer())]

    assert set(run(scenario())) == {200}
    assert len(runs) == 1


def test_a_probe_that_disconnects_does_not_stop_the_checks_for_others(site: Any) -> None:
    async def scenario() -> Probe:
        leaving = asyncio.ensure_future(readiness.ready())
        staying = Probe(site, "/health/ready/")
        answering = asyncio.ensure_future(staying.answer())
        await asyncio.sleep(0)
        leaving.cancel()
        return await answering

    assert run(scenario()).status == 200


def test_djangos_urls_check_the_host_name_and_the_asgi_endpoint_does_not(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(
        logging.CRITICAL, "django.security"
    )  # a mail to the administrators would take longer than this test
    assert ask(site, "/health/ready/", host="10.0.0.7:8000").status == 400
    assert ask(site, "/probes/ready", host="10.0.0.7:8000").status == 200


def test_the_documented_probes_match_the_documented_urls(settings: Any) -> None:
    granted = {"urlpatterns": [], "include": include, "path": path}
    settings.ROOT_URLCONF = urls = ModuleType("urls")
    vars(urls).update(executed(snippet("how-to/operations.md#is-it-there-probes"), **granted))
    settings.ALLOWED_HOSTS = ["example.com"]
    site = mcp_application(get_asgi_application())
    kubernetes = yaml.safe_load(snippet("how-to/operations.md#which-name-a-probe-must-say").text)
    for probe in kubernetes.values():
        [host] = [each["value"] for each in probe["httpGet"]["httpHeaders"] if each["name"] == "Host"]
        assert ask(site, probe["httpGet"]["path"], host=host).status == 200
        assert probe["timeoutSeconds"] > Defaults.READY_TIMEOUT
    _, option, check = snippet("how-to/operations.md#which-name-a-probe-must-say:2").text.splitlines()
    assert option == "option httpchk"
    haproxy = re.fullmatch(r"http-check send meth (\w+) uri (\S+) ver HTTP/1.1 hdr Host (\S+)", check)
    assert haproxy
    method, uri, host = haproxy.groups()
    assert ask(site, uri, method, host).status == 200


def test_the_documented_asgi_endpoint_comes_before_django() -> None:
    granted = {"application": get_asgi_application(), "mcp_application": mcp_application}
    site = executed(snippet("how-to/operations.md#which-name-a-probe-must-say:4"), **granted)["application"]
    for address in ("/health/live", "/health/ready", "/health/live/", "/health/ready/"):
        assert ask(site, address, host="10.0.0.7:8000").status == 200


@pytest.fixture
def strict(settings: Any) -> Iterator[Any]:
    """A site whose views require a login and begin a transaction, with a synchronous middleware."""
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
        "tests.health.test_health.sync_middleware",
    ]
    values = [connections[alias].settings_dict for alias in connections]
    for each in values:
        each["ATOMIC_REQUESTS"] = True
    yield mcp_application(get_asgi_application())
    for each in values:
        each["ATOMIC_REQUESTS"] = False


def sync_middleware(get_response: Any) -> Any:
    return lambda request: get_response(request)


def test_a_strict_sites_probes_need_no_login_and_no_transaction(strict: Any) -> None:
    assert ask(strict, "/health/live/").status == 200
    assert ask(strict, "/health/ready/").status == 200


def test_a_site_without_probes_has_none_before_django(settings: Any) -> None:
    assert ask(mcp_application(get_asgi_application()), "/probes/live").status == 404


def test_the_views_work_with_djangos_test_client(client: Any) -> None:
    assert client.get("/health/live/").json() == {"live": True}
    assert client.get("/health/ready/").json()["ready"] is True
