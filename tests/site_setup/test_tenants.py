"""A site of django-tenants (`tenants/`) with the lines of docs/how-to/tenants.md, on PostgreSQL."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs.pages import snippets
from tests.site_setup.conftest import INSTALLING, Site
from tests.support.site import wire
from tests.support.site.browsing import Browser
from tests.support.site.inspector import ROOT
from tests.support.site.services import ServicesMissingError, missing, own_services
from tests.support.site.wire import Connection
from tests.support.waiting import eventually

pytestmark = [pytest.mark.engines, pytest.mark.nightly]

TENANTS: Final = Path(__file__).parent / "tenants"
DJANGO_TENANTS: Final = "django-tenants==4.0.1"
MANAGE: Final = (sys.executable, "manage.py")
STARTING: Final = 120.0
PASSWORD: Final = "a long password"
ADD_TENANTS: Final = f"""
from django.contrib.auth import get_user_model
from tenancy.models import Domain, Tenant
for name in ("acme", "zoo"):
    tenant = Tenant.objects.create(schema_name=name, name=name)
    Domain.objects.create(domain=f"{{name}}.shop.test", tenant=tenant)
Domain.objects.create(domain="127.0.0.1", tenant=tenant)
get_user_model().objects.create_superuser("ada", password="{PASSWORD}")
"""
LIST_TABLES: Final = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'mcp_app_%'")
    print(cursor.fetchall())
"""
LIST_CALLS: Final = """
import json
from mcp_app.models import Request
print(json.dumps(list(Request.objects.filter(tool="add_slowly").values_list("issuer", "status", "cancel_cause"))))
"""


@dataclass(frozen=True)
class Shop:
    """The running site."""

    site: Site
    port: int

    def post(self, tenant: str, message: dict[str, Any], key: str = "") -> Connection:
        connection = Connection(self.port)
        headers = {"Host": f"{tenant}.shop.test", "X-Api-Key": key or f"ada@{tenant}"}
        connection.post(message, headers=headers)
        return connection

    def call(self, tenant: str, tool: str, key: str = "", **arguments: Any) -> dict[str, Any]:
        """Call a tool on the host of a tenant, and return the response."""
        with closing(self.post(tenant, wire.call(tool, **arguments), key)) as connection:
            return connection.answer()

    def notes(self, tenant: str) -> list[str]:
        found: list[str] = self.call(tenant, "read_notes")["result"]["structuredContent"]
        return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    data = tmp_path_factory.mktemp("tenants")
    folder, logs, packages = data / "site", data / "logs", data / "packages"
    logs.mkdir()
    shutil.copytree(TENANTS, folder)
    functions, settings = snippets("how-to/tenants.md")
    (folder / "shop/tenants.py").write_text(functions.text)
    with (folder / "shop/settings.py").open("a") as file:
        file.write(settings.text)
    try:
        with own_services() as engines, Site.opened(folder, logs) as site:
            site.environment |= engines
            pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages))
            site.run(*pip, DJANGO_TENANTS, within=INSTALLING)
            site.environment["PYTHONPATH"] = f"{ROOT}:{packages}"
            yield from running(site)
    except ServicesMissingError as error:
        missing(f"NO PostgreSQL, no site with tenants was tested: {error}")


def running(site: Site) -> Iterator[Shop]:
    site.run(*MANAGE, "makemigrations", "tenancy", "notes", "--verbosity=0")
    assert "mcp_app." not in site.run(*MANAGE, "check")
    site.run(*MANAGE, "migrate_schemas", "--shared", "--verbosity=0")
    site.run(*MANAGE, "shell", "--verbosity=0", "-c", ADD_TENANTS)
    server = site.start(*MANAGE, "mcp", "serve", "--port=0", "--concurrency=2")
    server.says("READY", STARTING)
    yield Shop(site, int(server.says(r"MCP endpoint +http://127\.0\.0\.1:(\d+)/mcp")[1]))
    assert server.stop() == 0, server.output()
    site.await_no_process()


def test_the_tables_are_in_the_public_schema_only(shop: Shop) -> None:
    assert shop.site.run(*MANAGE, "shell", "--verbosity=0", "-c", LIST_TABLES).strip() == "[('public',)]"


def test_a_tool_runs_in_the_schema_of_the_host_s_tenant(shop: Shop) -> None:
    assert shop.call("acme", "add_note", text="for acme")["result"]["structuredContent"] == ["for acme"]
    assert shop.call("zoo", "add_note", text="for zoo")["result"]["structuredContent"] == ["for zoo"]
    assert shop.notes("acme") == ["for acme"]
    assert shop.notes("zoo") == ["for zoo"]
    read = wire.message("resources/read", uri="notes://all")
    with closing(shop.post("zoo", read)) as connection:
        assert connection.result()["contents"][0]["text"] == "for zoo"


@pytest.mark.parametrize(("tenant", "key"), [("acme", "ada@zoo"), ("acme", "eve@acme"), ("nobody", "ada@acme")])
def test_a_key_is_valid_at_its_own_tenant_only(shop: Shop, tenant: str, key: str) -> None:
    assert shop.call(tenant, "add_note", key, text="never")["error"]["code"] == 401


def test_a_client_that_leaves_stops_its_call_in_the_tenant_s_schema(shop: Shop) -> None:
    call = shop.post("zoo", wire.call("add_slowly"))
    eventually(lambda: "number 1" in shop.notes("zoo"), "it runs")
    call.close()
    ended = [["zoo", "cancelled", "disconnect"]]
    list_calls = (*MANAGE, "shell", "--verbosity=0", "-c", LIST_CALLS)
    eventually(lambda: json.loads(shop.site.run(*list_calls)) == ended, "it has ended", within=30.0)
    written = shop.notes("zoo")
    assert shop.notes("zoo") == written
    assert not any("number" in each for each in shop.notes("acme"))


def test_the_admin_shows_calls_on_the_host_of_a_tenant(shop: Shop) -> None:
    status, page = Browser.of(shop.port, "ada", PASSWORD).get("/admin/mcp_app/request/")
    assert status == 200, page
    assert "ada, acme" in page
