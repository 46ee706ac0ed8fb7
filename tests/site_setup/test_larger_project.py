"""`mcp_app` in a project that already had users, an admin, Celery with beat, Channels and two databases (`larger/`).

It runs on the embedded parts, and on PostgreSQL and Redis if they are installed.
"""

import base64
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.site_setup.conftest import Site
from tests.support.site import wire
from tests.support.site.inspector import ROOT
from tests.support.site.programs import Program
from tests.support.site.services import ServicesMissingError, own_services
from tests.support.site.wire import Connection
from tests.support.waiting import eventually

LARGER = Path(__file__).parent / "larger"
STARTING = 120.0
PATIENCE = 30.0
MAKE_MEMBERS = """
from hashlib import sha256
from accounts.models import Key, Member
for name in ("ada", "eve", "gone"):
    member = Member.objects.create(email=f"{name}@company.test", is_active=name != "gone")
    Key.objects.create(member=member, digest=sha256(f"{name}-key".encode()).hexdigest())
"""


@dataclass(frozen=True)
class Company:
    """The running project."""

    site: Site
    server: Program
    worker: Program
    port: int

    def call(self, tool: str, key: str = "ada-key", **arguments: object) -> dict[str, Any]:
        """Call a tool with this key, and return the response."""
        with closing(Connection(self.port)) as connection:
            connection.post(wire.call(tool, **arguments), headers={"X-Api-Key": key})
            return connection.answer()

    def text(self, tool: str, key: str = "ada-key", **arguments: object) -> str:
        return wire.text(self.call(tool, key, **arguments)["result"])

    def get(self, path: str) -> str:
        http = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        http.request("GET", path)
        response = http.getresponse()
        body = response.read().decode()
        http.close()
        assert response.status == 200, body
        return body

    def await_entry(self, text: str) -> None:
        eventually(lambda: f'"{text}"' in self.get("/orders/"), f"{text} in the ledger", within=PATIENCE)


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("engines", marks=[pytest.mark.engines, pytest.mark.nightly])]
)
def company(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """Yields the project with its own worker and beat, and with `mcp serve`."""
    if request.param == "embedded":
        yield from running(tmp_path_factory.mktemp("company"), {})
        return
    try:
        with own_services() as engines:
            yield from running(tmp_path_factory.mktemp("company"), engines)
    except ServicesMissingError as error:
        why = f"NO PostgreSQL AND Redis, the larger project did not run on them: {error}"
        if os.environ.get("MCP_REQUIRE_ENGINES") == "1":
            pytest.fail(why)
        pytest.skip(why)


def running(data: Path, engines: Mapping[str, str]) -> Iterator[Company]:
    with Site.opened(LARGER, data) as site:
        site.environment.update(engines, COMPANY_DATA=str(data), PYTHONPATH=str(ROOT))
        site.environment["DJANGO_SETTINGS_MODULE"] = "company.settings"
        manage = (sys.executable, "manage.py")
        assert "no issues (0 silenced)" in site.run(*manage, "check")
        for alias in ("default", "ledger", *(() if engines else ("mcp",))):
            site.run(*manage, "migrate", "--database", alias, "--verbosity=0")
        site.run(*manage, "shell", "--verbosity=0", "-c", MAKE_MEMBERS)
        celery = (sys.executable, "-m", "celery", "-A", "company", "worker", "-B", "-Q", "company,bookings")
        worker = site.start(*celery, "--concurrency=1")
        server = site.start(*manage, "mcp", "serve", "--port=0", "--concurrency=2")
        server.says("READY", STARTING)
        port = int(server.says(r"MCP endpoint +http://127\.0\.0\.1:(\d+)/mcp")[1])
        yield Company(site, server, worker, port)
        assert server.stop() == 0, server.output()
        assert worker.stop() == 0, worker.output()
        site.await_no_process()


def test_user_is_whoever_the_authenticator_found(company: Company) -> None:
    assert company.text("order", key="ada-key", text="tea") == "written"
    assert company.text("order", key="eve-key", text="ink") == "written"
    company.await_entry("tea by ada@company.test")
    company.await_entry("ink by eve@company.test")


def test_helper_code_finds_the_context_of_its_call(company: Company) -> None:
    assert company.text("price", cents=250) == "250 cents for ada@company.test"


@pytest.mark.parametrize("key", ["", "nobodys-key", "gone-key"])
def test_nobody_else_may_call(company: Company, key: str) -> None:
    assert company.call("price", key=key, cents=1)["error"]["code"] == 401


def test_limits_of_the_companys_own_tasks_are_not_the_tools(company: Company) -> None:
    assert company.text("audit") == "audited"


def test_companys_own_tasks_queues_and_beat_still_work(company: Company) -> None:
    company.get("/orders/book/")
    company.await_entry("booked")
    company.await_entry("tick")


def test_companys_admin_and_pages_are_served(company: Company) -> None:
    assert "csrfmiddlewaretoken" in company.get("/admin/login/")


def test_companys_websockets_are_served(company: Company) -> None:
    with (
        socket.create_connection(("127.0.0.1", company.port), timeout=PATIENCE) as client,
        client.makefile("rb") as read,
    ):
        key = base64.b64encode(os.urandom(16)).decode()
        client.sendall(
            f"GET /ws/echo/ HTTP/1.1\r\nHost: 127.0.0.1:{company.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b" 101 " in read.readline()
        while read.readline() != b"\r\n":
            pass
        client.sendall(b"\x81\x85\0\0\0\0hello")  # one masked text frame
        assert read.read(7) == b"\x81\x05hello"


def test_no_key_is_kept(company: Company) -> None:
    assert company.text("price", cents=1)
    data = Path(company.site.environment["COMPANY_DATA"])
    kept = [path for path in data.rglob("*") if path.is_file() and b"ada-key" in path.read_bytes()]
    assert kept == []
