"""Every test of the catalogue starts with an empty registry."""

from collections.abc import Iterator

import pytest

from mcp_app.catalogue.declaration import isolated_registries


@pytest.fixture(autouse=True)
def _empty_registry() -> Iterator[None]:
    with isolated_registries():
        yield
