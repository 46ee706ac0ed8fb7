"""A tool's own limits apply to every call. The site's limits for all tools apply only to clients' calls."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.models import Request
from mcp_app.testing.client import Client
from mcp_app.tools import ToolContext, ToolError, tool

pytestmark = pytest.mark.usefixtures("_tools")


@pytest.fixture
def _tools() -> Iterator[None]:
    cache.clear()
    with isolated_registries():

        @tool(rate="2/d")
        def rare() -> str:
            return "done"

        @tool(concurrency=1)
        def alone(ctx: ToolContext, again: bool = False) -> str:
            return said(ctx, "alone") if again else "done"

        @tool
        def free() -> str:
            return "done"

        @tool
        def starts(name: str, times: int, ctx: ToolContext) -> list[str]:
            return [said(ctx, name) for _ in range(times)]

        @tool
        def starts_twice(ctx: ToolContext) -> str:
            return said(ctx, "alone", again=True)

        yield


def said(ctx: ToolContext, name: str, **arguments: Any) -> str:
    try:
        return "".join(block.text for block in ctx.start(name, **arguments).result().content)
    except ToolError as refused:
        return str(refused)


def test_a_tool_that_has_a_rate_is_started_no_more_often(mcp_client: Client) -> None:
    mcp_client.call("rare")
    told = mcp_client.call("starts", name="rare", times=2).structured
    assert told[0] == "done"
    assert all(fact in told[1] for fact in ("rare", "not started", "rate limit", "again in "))
    assert Request.objects.filter(tool="rare").count() == 2


def test_of_a_tool_that_has_a_limit_no_more_are_started_at_once(mcp_client: Client) -> None:
    for told in (mcp_client.call("alone", again=True).text, mcp_client.call("starts_twice").text):
        assert all(fact in told for fact in ("alone", "not started", "at most 1 open"))
    assert mcp_client.call("starts", name="alone", times=2).structured == ["done", "done"]


def test_what_cannot_be_counted_is_not_started(mcp_client: Client, settings: Any) -> None:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    [told] = mcp_client.call("starts", name="rare", times=1).structured
    assert all(fact in told for fact in ("rare", "not started", "rate limit", "cannot be checked"))


def test_the_site_s_limits_are_not_for_what_tools_start(mcp_client: Client, configure: Any) -> None:
    configure(TOOL_RATE="1/d", TOOL_CONCURRENCY=1)
    assert mcp_client.call("starts", name="free", times=3).structured == ["done"] * 3
