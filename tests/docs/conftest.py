"""Blocks of the pages, executed as they stand."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_app.catalogue.declaration import isolated_registries
from tests.docs.pages import Snippet

Names = dict[str, Any]
Execute = Callable[..., Names]


@pytest.fixture
def execute() -> Iterator[Execute]:
    """Run blocks in their order as one module of an app's, and the only one; it has what a page takes for granted.

    `under`: what decorators decorate that a page shows alone.
    """

    def run(*blocks: Snippet, under: str = "", **granted: Any) -> Names:
        names: Names = {"__name__": "shop.mcp_tools", **granted}
        for block in blocks:
            exec(compile(block.text + under, block.place, "exec"), names)
        return names

    with isolated_registries():
        yield run
