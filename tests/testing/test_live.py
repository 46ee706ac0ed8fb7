"""The client that calls a site over HTTP: when it cancels a call, and that it does not wait for a rejected one."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.db import connections

from mcp_app.models import Request
from mcp_app.routing import mcp_application
from mcp_app.states import Status
from mcp_app.testing import live, live_site
from mcp_app.testing.live import LiveClient
from mcp_app.testing.live_site import LiveSite
from mcp_app.testing.outcomes import MCPError
from tests.auth.own_server import listening_socket, serving
from tests.support.worker import Worker, eventually


@pytest.fixture(name="client")
def _client(transactional_db: None, configure: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveClient]:
    configure(ALLOWED_HOSTS=["127.0.0.1"], DRAIN_SECONDS=0.1)
    monkeypatch.setattr(live, "PATIENCE", 10.0)
    with listening_socket() as listener, serving(mcp_application(get_asgi_application()), listener):
        yield LiveClient(LiveSite(listener.getsockname()[1]))


def test_a_live_site_that_cannot_start_says_why_and_nothing_of_migrating(tmp_path: Path) -> None:
    """Start a site whose databases have no tables."""
    databases = {alias: str(tmp_path / f"{alias}.sqlite3") for alias in connections}
    told = {"settings": "tests.settings", "databases": databases, "broker": str(tmp_path / "broker")}
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": live_site.SETTINGS, live_site.ENVIRONMENT: json.dumps(told)}
    environment.pop("MCPSITE_DATABASE", None)
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_app.testing.live_site"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as site:
        assert site.stdout is not None
        said = site.stdout.read()
        assert site.wait(60) == 1
    assert "no such table" in said
    assert "migrate" not in said
    assert "Fatal Python error" not in said


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_call_that_is_refused_is_not_waited_for_to_be_cancelled(client: LiveClient) -> None:
    with pytest.raises(MCPError, match="Unknown tool: no_such_tool"):
        client.call("no_such_tool", cancel_after=60)
    assert client.call("add", a="one", b=2, cancel_after=60).is_error


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_call_is_left_so_long_after_its_run_began(client: LiveClient) -> None:
    async def work(worker: Worker) -> None:
        request_id = await worker.claim()
        await eventually(Request.objects.filter(pk=request_id, cancel_requested_at__isnull=False).exists)
        await worker.finish(request_id, Status.CANCELLED)

    with Worker.at_work() as worker, ThreadPoolExecutor(1) as beside:
        working = beside.submit(lambda: asyncio.run(work(worker)))
        stopped = client.call("block", seconds=60, cancel_after=0.01)
        working.result()
    assert stopped.cancelled
