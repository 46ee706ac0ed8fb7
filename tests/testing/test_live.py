"""The client that goes to a site over HTTP, where its call does not come to a run."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application

from mcp_app.routing import mcp_application
from mcp_app.testing import live
from mcp_app.testing.live import LiveClient
from mcp_app.testing.live_site import LiveSite
from mcp_app.testing.outcomes import MCPError
from tests.auth.own_server import listening, serving


@pytest.fixture(name="client")
def _client(transactional_db: None, configure: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveClient]:
    configure(ALLOWED_HOSTS=["127.0.0.1"], DRAIN_SECONDS=0.1)
    monkeypatch.setattr(live, "PATIENCE", 5.0)
    with listening() as listener, serving(mcp_application(get_asgi_application()), listener):
        yield LiveClient(LiveSite(listener.getsockname()[1]))


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_a_call_that_is_refused_is_not_waited_for_to_be_cancelled(client: LiveClient) -> None:
    with pytest.raises(MCPError, match="Unknown tool"):
        client.call("ad", cancel_after=60)
    assert client.call("add", a="one", b=2, cancel_after=60).is_error
