"""Blocks of the pages, executed as they stand."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_app.catalogue.declaration import isolated_registries
from tests.docs import pages
from tests.management.conftest import data, serve

__all__ = ["data", "serve"]  # fixtures: the site of a test's own, and `mcp serve` on it

Execute = Callable[..., dict[str, Any]]


@pytest.fixture
def execute() -> Iterator[Execute]:
    """`pages.executed`, on a site that has no other tools."""
    with isolated_registries():
        yield pages.executed
