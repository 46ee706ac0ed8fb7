"""A site whose router sends all reads to a replica that stands still, and that has no table of this app."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.situations import INTERRUPT, LONG, STEP
from tests.acceptance.test_disconnect import assert_cancelled, assert_stopped
from tests.support.site.browsing import Browser
from tests.support.site.layouts import closing
from tests.support.site.programs import STARTING
from tests.support.site.services import SERVER, ServicesMissingError, missing, only_on_postgresql, own_services
from tests.support.site.stack import CONCURRENCY, MANAGE, Stack
from tests.support.site.wire import text
from tests.support.waiting import eventually

pytestmark = pytest.mark.engines

SETTINGS: Final = "tests.acceptance.replica_settings"
PASSWORD: Final = "a long password"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    only_on_postgresql()
    data = tmp_path_factory.mktemp("replica")
    try:
        with own_services() as environment, closing(Stack(data, environment, workers=1, settings=SETTINGS)) as site:
            run(site, "migrate", "--verbosity=0")
            run(site, "createsuperuser", "--noinput", "--username=ada", "--email=", DJANGO_SUPERUSER_PASSWORD=PASSWORD)
            with replica(environment["MCPSITE_DATABASE"].rpartition("/")[2]):
                site.serve_from(site.start_embedded(CONCURRENCY))
                yield site
                site.close()
    except ServicesMissingError as error:
        missing(f"NO PostgreSQL AND Redis, no site with a replica was tested: {error}")


def run(site: Stack, *command: str, **environment: str) -> None:
    program = site.start(*MANAGE, *command, **environment)
    assert program.wait(STARTING) == 0, program.output()


@contextmanager
def replica(name: str) -> Iterator[None]:
    """Copy a database without the tables of this app. The copy cannot be written to, and does not change."""
    import psycopg

    copy = f"{name}_replica"
    with psycopg.connect(f"{SERVER}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {copy} TEMPLATE {name}".encode())
        try:
            with psycopg.connect(f"{SERVER}/{copy}") as copied:
                ours = copied.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'mcp_app_%'").fetchall()
                assert ours
                copied.execute(f"DROP TABLE {', '.join(table for [table] in ours)} CASCADE".encode())
            admin.execute(f"ALTER DATABASE {copy} SET default_transaction_read_only = on".encode())
            yield
        finally:
            admin.execute(f"DROP DATABASE {copy} WITH (FORCE)".encode())


def test_a_call_is_answered(site: Stack) -> None:
    call = site.call("add", a=1, b=2)
    assert text(call.result()) == "3"


def test_a_client_that_leaves_stops_its_call_and_the_admin_shows_both(site: Stack, steps: Path) -> None:
    call = site.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
    site.running(call)
    eventually(steps.exists, "it takes a step")
    call.close()
    row = site.ended(call)
    assert_cancelled(row, cause="disconnect", stage=INTERRUPT, actor="anonymous")
    assert_stopped(row, steps)
    ada = Browser.of(site.servers[0].port, "ada", PASSWORD)
    lists = set(re.findall(r'href="(/admin/mcp_app/\w+/)"', shown(ada, "/admin/")))
    assert len(lists) > 5
    for each in sorted(lists):
        shown(ada, each)
    assert "sleep_sync" in shown(ada, "/admin/mcp_app/request/")
    assert "sleep_sync" in shown(ada, f"/admin/mcp_app/request/{row.id}/change/")
    audit = shown(ada, "/admin/mcp_app/cancellation/")
    [attempt] = re.findall(r"/admin/mcp_app/cancellation/\d+/change/", audit)
    assert "disconnect" in shown(ada, attempt)


def shown(browser: Browser, path: str) -> str:
    status, page = browser.get(path)
    assert status == 200, page
    return page


def test_an_administrator_cancels(site: Stack, steps: Path) -> None:
    call = site.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
    row = site.running(call)
    ada = Browser.of(site.servers[0].port, "ada", PASSWORD)
    shown(ada, f"/admin/mcp_app/request/{row.id}/change/")
    assert ada.post(f"/admin/mcp_app/request/{row.id}/cancel/", reason="no need")[0] == 302
    assert "administrator" in text(call.result())
    assert site.ended(call).cancel_reason == "no need"
