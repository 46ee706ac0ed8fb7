"""Fixtures that execute blocks of the pages, and serve a site for them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_app.catalogue.declaration import isolated_registries
from tests.docs import pages
from tests.management.conftest import data, serve

__all__ = ["data", "serve"]  # fixtures: a site for one test, and `mcp serve` on it

Execute = Callable[..., dict[str, Any]]


@pytest.fixture
def execute() -> Iterator[Execute]:
    """Yields `pages.executed`, with empty registries."""
    with isolated_registries():
        yield pages.executed
