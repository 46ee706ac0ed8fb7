"""A real endpoint without an HTTP server. Rows are in real database files, messages in the embedded broker.

The tests play the worker step by step (`Worker`), so that they control the order of events.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from mcp_app.catalogue import registry
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import RegisteredTool, registered_tools, tool
from tests.support.worker import Worker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.django_db(transaction=True, databases="__all__"))


@pytest.fixture(autouse=True)
def _settings(settings: Any) -> None:
    settings.MCP = {
        **settings.MCP,
        "ALLOW_ANONYMOUS": True,
        "ALLOWED_HOSTS": ["testserver"],
        "KEEP_ALIVE": 10.0,
        "SSE_AFTER": 10.0,
        "DRAIN_SECONDS": 0.1,
    }


@pytest.fixture(scope="session")
def declared() -> dict[str, RegisteredTool]:
    """Returns the tools of all tests here. Their schemas are made once per run."""
    with isolated_registries():

        @tool
        def work(text: str = "") -> str:
            """Work until the test ends the call."""
            return text

        @tool
        def regional(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
            """Work in a region."""
            return region

        @tool(requires={"elicitation": {}})
        def inquisitive() -> str:
            """Ask its user."""
            return ""

        return dict(registered_tools())


@pytest.fixture(autouse=True)
def _tools(declared: dict[str, RegisteredTool]) -> Iterator[None]:
    with isolated_registries():
        for name, each in declared.items():
            registry._registry.add(name, each)
        yield


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker.at_work() as worker:
        yield worker
