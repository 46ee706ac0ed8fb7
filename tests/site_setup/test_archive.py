"""`mcp_app` in a project with unusual settings (`archive/`), which it must respect.

The project's Channels routers are inside `mcp_application()`, a custom serializer signs its Celery messages, and its
tasks have time limits. `celery -A archive worker` runs the tools. `django_celery_results` is not installed.
"""

import base64
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.site_setup.conftest import Site
from tests.support.site import wire
from tests.support.site.browsing import Browser
from tests.support.site.inspector import ROOT
from tests.support.site.programs import Program
from tests.support.site.wire import Connection

ARCHIVE = Path(__file__).parent / "archive"
STARTING = 120.0
PATIENCE = 30.0
MANAGE = (sys.executable, "manage.py")
WORKER = (
    sys.executable,
    "-m",
    "celery",
    "-A",
    "archive",
    "worker",
    "-Q",
    "celery,mcp",
    "--concurrency=2",
    "-l",
    "info",
)
PASSWORD = "readers-only"
LATEST = "from mcp_app.models import Request; print('latest', Request.objects.latest('queued_at').pk)"


@dataclass(frozen=True)
class Archive:
    """The running project."""

    site: Site
    worker: Program
    port: int

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Return the result of a call."""
        with closing(Connection(self.port)) as connection:
            connection.post(wire.call(tool, **arguments))
            return connection.result()

    def ask(self, code: str) -> str:
        """Run code in `manage.py shell`, and return its output."""
        return self.site.run(*MANAGE, "shell", "--verbosity=0", "-c", code)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yields the project, with its tables."""
    data = tmp_path_factory.mktemp("archive")
    with Site.opened(ARCHIVE, data) as site:
        site.environment |= {"ARCHIVE_DATA": str(data), "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        site.environment["DJANGO_SETTINGS_MODULE"] = "archive.settings"
        for alias in ("default", "mcp"):
            site.run(*MANAGE, "migrate", "--database", alias, "--verbosity=0")
        yield site


@pytest.fixture(scope="module")
def archive(prepared: Site) -> Iterator[Archive]:
    """Yields the project with a server and its own worker."""
    worker = prepared.start(*WORKER)
    server = prepared.start(*MANAGE, "mcp", "serve", "--port=0", "--no-worker")
    server.says("READY", STARTING)
    worker.says("ready", STARTING)
    yield Archive(prepared, worker, int(server.says(r"MCP endpoint +http://127\.0\.0\.1:(\d+)/mcp")[1]))
    assert server.stop() == 0, server.output()
    assert worker.stop() == 0, worker.output()
    prepared.await_no_process()


def test_the_sites_own_ways_are_no_errors(prepared: Site) -> None:
    said = prepared.run(*MANAGE, "check")
    assert "mcp_app." not in said


def test_tools_run_by_messages_of_the_sites_own_serializer(archive: Archive) -> None:
    assert wire.text(archive.call("read_pages", seconds=0)) == "read"


def test_time_limits_of_the_sites_tasks_are_not_the_tools(archive: Archive) -> None:
    assert wire.text(archive.call("read_pages", seconds=4.0)) == "read"


def test_time_limits_of_the_sites_tasks_still_hold(archive: Archive) -> None:
    archive.ask("from documents.tasks import index; index.delay(20)")
    archive.worker.says("the soft limit of index has passed", PATIENCE)
    archive.worker.says(r"Hard time limit \(3s\) exceeded", PATIENCE)
    assert "index has ended" not in archive.worker.output()


def test_the_sites_websockets_are_served(archive: Archive) -> None:
    with (
        socket.create_connection(("127.0.0.1", archive.port), timeout=PATIENCE) as client,
        client.makefile("rb") as read,
    ):
        key = base64.b64encode(os.urandom(16)).decode()
        client.sendall(
            f"GET /ws/echo/ HTTP/1.1\r\nHost: 127.0.0.1:{archive.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b" 101 " in read.readline()
        while read.readline() != b"\r\n":
            pass
        client.sendall(b"\x81\x85\0\0\0\0hello")  # one masked text frame
        assert read.read(7) == b"\x81\x05hello"


def test_page_of_a_request_does_without_celerys_view(archive: Archive) -> None:
    archive.call("read_pages", seconds=0)
    changed = f"a = get_user_model().objects.get(); a.set_password('{PASSWORD}'); a.save()"
    archive.ask(f"from django.contrib.auth import get_user_model; {changed}")
    found = re.search(r"latest (\S+)", archive.ask(LATEST))
    assert found is not None
    status, page = Browser.of(archive.port, "admin", PASSWORD).get(f"/admin/mcp_app/request/{found[1]}/change/")
    assert status == 200, page
    assert "read_pages" in page
