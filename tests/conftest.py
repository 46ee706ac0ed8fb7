"""Fixtures and hooks for the tests of all packages."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import TransactionTestCase
from pytest_asyncio import is_async_test

from tests.execution.site import Site

# If the environment disables bytecode files, each of the many processes that tests start would compile the whole app,
# and each run would compile all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault", metavar="ROW", help="only the tests of this row of docs/project/reliability.md, as A5")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_async_test(item) and "server_process" not in item.fixturenames:
            item.fixturenames.append("server_process")  # the last to be set up, so the first to be torn down
    row = config.getoption("--fault")
    if row is None:
        return
    proofs = [item for item in items if any(row in marker.args for marker in item.iter_markers("fault"))]
    config.hook.pytest_deselected(items=[item for item in items if item not in proofs])
    items[:] = proofs


@pytest.fixture(scope="session", autouse=True)
def _cheap_flush() -> Iterator[None]:
    from tests.support.flushing import flush  # imports models, so Django must be set up

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", flush)
        yield


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget failures that an earlier test has caused."""
    from mcp_app.lifecycle.liveness import processes, wakeups

    monkeypatch.setattr(processes, "_own", processes._OwnLiveness())
    monkeypatch.setattr(wakeups, "_layer_away_until", 0.0)


@pytest.fixture
async def server_process() -> AsyncIterator[None]:
    """Runs a server process. Every async test uses this fixture."""
    from tests.support import asgi_client

    async with asgi_client.server_process():
        yield


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns an embedded data folder with the tables of every test site. Tests copy it."""
    data = tmp_path_factory.mktemp("migrated")
    with Site.opened(data, {}):
        return data


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """Returns a function that changes settings in `MCP` for one test."""

    def change(**values: Any) -> None:
        settings.MCP = {**settings.MCP, **values}

    return change
