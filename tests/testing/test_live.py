"""The client that goes to a site over HTTP: when it leaves a call, and that it waits for none that was refused."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.asgi import get_asgi_application

from mcp_app.models import Request
from mcp_app.routing import mcp_application
from mcp_app.states import Status
from mcp_app.testing import live
from mcp_app.testing.live import LiveClient
from mcp_app.testing.live_site import LiveSite
from mcp_app.testing.outcomes import MCPError
from tests.auth.own_server import listening, serving
from tests.transport.worker import Worker, eventually


@pytest.fixture(name="client")
def _client(transactional_db: None, configure: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveClient]:
    configure(ALLOWED_HOSTS=["127.0.0.1"], DRAIN_SECONDS=0.1)
    monkeypatch.setattr(live, "PATIENCE", 10.0)
    with listening() as listener, serving(mcp_application(get_asgi_application()), listener):
        yield LiveClient(LiveSite(listener.getsockname()[1]))


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_call_that_is_refused_is_not_waited_for_to_be_cancelled(client: LiveClient) -> None:
    with pytest.raises(MCPError, match="Unknown tool"):
        client.call("ad", cancel_after=60)
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
