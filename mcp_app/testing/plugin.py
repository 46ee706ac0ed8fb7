"""The pytest plugin, with the fixtures `mcp_client` and `mcp_live_client`. pytest loads it if this app is installed.

It imports nothing of the app, nor Django, before a test requests a fixture.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mcp_app.testing.client import Client
    from mcp_app.testing.live import LiveClient
    from mcp_app.testing.live_site import LiveSite


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a test that uses a client the databases that it needs, as pytest-django's own fixtures do."""
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
    """A live site on the test databases, shared by all tests."""
    from mcp_app.testing.live_site import running

    with running(tmp_path_factory.mktemp("mcp-live-site")) as site:
        yield site


def _open_databases(item: pytest.Item, *, commits: bool) -> None:
    """Add this app's database to those of the test, and keep the other arguments of its `django_db` mark.

    `commits` is true if other processes must see the test's data.
    """
    from django.conf import settings as django_settings

    from mcp_app.conf import settings

    if not (django_settings.configured or os.environ.get("DJANGO_SETTINGS_MODULE")):
        return  # as the fixture says
    asked = item.get_closest_marker("django_db")
    args, wanted = (asked.args, dict(asked.kwargs)) if asked is not None else ((), {})
    databases = wanted.get("databases") or ["default"]
    if databases != "__all__":
        wanted["databases"] = sorted({*databases, settings.DATABASE})
    if commits:
        args, wanted["transaction"] = (), True
    item.add_marker(pytest.mark.django_db(*args, **wanted), append=False)
