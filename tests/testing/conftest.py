"""The fixtures for tests of the test client, with the tools of `mcp_tools` as an author's."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from mcp_app.catalogue import declaration
from mcp_app.catalogue.declaration import isolated_registries

Declared = tuple[ModuleType, list[tuple[Any, dict[str, Any]]]]


@pytest.fixture(scope="session")
def declared() -> Declared:
    """The authors' module and its declarations, whose schemas are built once."""
    with isolated_registries():
        from tests.testing import mcp_tools

        return mcp_tools, [(registry, dict(registry.declared)) for registry in declaration._registries]


@pytest.fixture(autouse=True)
def tools(declared: Declared) -> Iterator[ModuleType]:
    """The authors' module, whose declarations are the only ones of the site."""
    module, registries = declared
    with isolated_registries():
        for registry, each in registries:
            registry._declared.update(each)
        module.happened.clear()
        yield module
