"""The snippets of docs/how-to/django.md behave as the page describes."""

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import registered_tools
from mcp_app.execution.tool import middleware
from mcp_app.tools import ToolError
from tests.docs.pages import snippets


def test_the_page_s_middleware_runs_around_a_body_and_its_tool_is_excepted(monkeypatch: Any, configure: Any) -> None:
    factory, setting, excepted = [block.text for block in snippets("how-to/django.md")]
    names: dict[str, Any] = {"MCP": {}}
    for snippet in (factory, setting):
        exec(compile(snippet, "how-to/django.md", "exec"), names)
    assert names["MCP"] == {"MIDDLEWARE": ["shop.middleware.one_at_a_time"]}

    monkeypatch.setitem(globals(), "one_at_a_time", names["one_at_a_time"])
    configure(MIDDLEWARE=[f"{__name__}.one_at_a_time"])
    context: Any = SimpleNamespace(request=SimpleNamespace(tool="slow"))
    context.body = lambda: middleware.middleware()(context)
    with pytest.raises(ToolError, match="being called by somebody"):
        middleware.middleware()(context)
    context.body = lambda: "once"
    assert middleware.middleware()(context) == "once"

    monkeypatch.setitem(middleware.connections.settings["default"], "ATOMIC_REQUESTS", True)
    with isolated_registries():
        exec(compile(excepted, "how-to/django.md", "exec"), names := {"__name__": "shop.mcp_tools"})
        tool = registered_tools()["import_catalogue"]
        assert middleware.atomic_aliases(tool) == ()
        exec(
            compile(
                excepted.replace("@transaction.non_atomic_requests\ndef import", "def re"), "how-to/django.md", "exec"
            ),
            names,
        )
        assert middleware.atomic_aliases(registered_tools()["re_catalogue"]) == ("default",)
