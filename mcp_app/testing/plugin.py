"""The pytest plugin: the fixtures `mcp_client` and `mcp_live_client`. Found by pytest wherever this app is installed.

Refuses to import anything, Django least of all, before a test asks for one of them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mcp_app.testing.client import Client
    from mcp_app.testing.live import LiveClient
    from mcp_app.testing.live_site import LiveSite


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a test that has a client the databases that it needs, as pytest-django's own fixtures do."""
    names = getattr(item, "fixturenames", ())
    is_live = "mcp_live_client" in names
    if (is_live or "mcp_client" in names) and item.config.pluginmanager.hasplugin("django"):
        _open_databases(item, commits=is_live)


@pytest.fixture
def mcp_client() -> "Iterator[Client]":
    """A client that calls the site's tools in this process, on the test's database: `mcp_app.testing.client.Client`."""
    from mcp_app.testing.client import Client

    with Client() as client:
        yield client


@pytest.fixture
def mcp_live_client(mcp_live_site: "LiveSite") -> "LiveClient":
    """A client that calls them over HTTP, at a site with a worker: `mcp_app.testing.live.LiveClient`."""
    from mcp_app.testing.live import LiveClient

    return LiveClient(mcp_live_site)


@pytest.fixture(scope="session")
def mcp_live_site(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[LiveSite]":
    """That site: one for all tests, on the test databases."""
    from mcp_app.testing.live_site import running

    with running(tmp_path_factory.mktemp("mcp-live-site")) as site:
        yield site


def _open_databases(item: pytest.Item, *, commits: bool) -> None:
    """Add this app's database to those that the test asks for; what else its `django_db` mark says stays.

    `commits`: others are to see what it does.
    """
    from mcp_app.conf import settings

    asked = item.get_closest_marker("django_db")
    args, wanted = (asked.args, dict(asked.kwargs)) if asked is not None else ((), {})
    databases = wanted.get("databases") or ["default"]
    if databases != "__all__":
        wanted["databases"] = sorted({*databases, settings.DATABASE})
    if commits:
        args, wanted["transaction"] = (), True
    item.add_marker(pytest.mark.django_db(*args, **wanted), append=False)
