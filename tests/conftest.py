"""What tests of every room use."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import TransactionTestCase

from tests.execution.site import Site


@pytest.fixture(scope="session", autouse=True)
def _cheap_flush() -> Iterator[None]:
    from tests.flushing import flush  # models, which want Django set up

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", flush)
        yield


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat that failed in one test is no reason to trust no silence in the next."""
    from mcp_app.lifecycle import processes

    monkeypatch.setattr(processes, "_voice", processes._Voice())


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedded data folder with the tables of every test site, to be copied."""
    data = tmp_path_factory.mktemp("migrated")
    with Site.opened(data, {}):
        return data


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """Change some of `MCP` for one test."""

    def change(**values: Any) -> None:
        settings.MCP = {**settings.MCP, **values}

    return change
