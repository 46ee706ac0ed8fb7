"""Fixtures: tools to try, users, and a replacement for the broker."""

from collections.abc import Iterator
from typing import Annotated

import pytest
from django.core.cache import cache
from django.test import Client
from pydantic import Field

from mcp_app.catalogue import tool_rows
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.celery_adapter import broker
from mcp_app.execution.tool.context import ToolContext
from tests.admin.try_tool.forms import MAY, LogIn, Recorder


@pytest.fixture(autouse=True)
def _tools() -> Iterator[None]:
    cache.clear()
    with isolated_registries():

        @tool
        def search(
            pattern: Annotated[str, Field(max_length=5)], ctx: ToolContext, limit: int = 10, part: str = "all"
        ) -> str:
            """Search <script>alert(1)</script> for a pattern."""
            ctx.progress(1, 2, "half")
            return f"{pattern} {limit} {part}"

        @tool(rate="1/h")
        def rare() -> str:
            """May be called once an hour."""
            return ""

        @tool(concurrency=1)
        def alone() -> str:
            """One at a time."""
            return ""

        @tool(permissions=["auth.view_user"], groups=["staff"])
        def guarded() -> str:
            """For some."""
            return ""

        @tool(requires={"elicitation": {}})
        def asks() -> str:
            """Asks its user."""
            return ""

        @tool(endpoints=["public", "staff"])
        def both() -> str:
            """At two endpoints."""
            return ""

        tool_rows.sync()
        yield


@pytest.fixture
def queue() -> Iterator[Recorder]:
    recorder = Recorder()
    with broker.replaced_by(recorder):
        yield recorder


@pytest.fixture
def tester(log_in: LogIn) -> Client:
    return log_in(*MAY, name="tester")
