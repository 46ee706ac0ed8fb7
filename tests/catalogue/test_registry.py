"""`@tool`: its declaration, its checks at import, and the discovery of tools."""

import sys
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from mcp_app.catalogue import declaration
from mcp_app.catalogue.errors import InvalidTool
from mcp_app.catalogue.registry import registered_tools, tool
from mcp_app.states import CancelPolicy, TaskMode


def test_decorated_function_stays_a_plain_function() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    @tool(title="Twice")
    async def twice(a: int) -> int:
        return 2 * a

    assert add(1, 2) == 3
    assert registered_tools()["add"].function is add
    assert [each.is_async for each in registered_tools().values()] == [False, True]


def test_options_are_kept() -> None:
    icon = mcp_types.Icon(src="https://example.com/i.png", mime_type="image/png")

    @tool(
        name="app.tool-1",
        title="A tool",
        description="Does it.",
        cancel=CancelPolicy.COOPERATIVE,
        cooperative_grace=0,
        hard_grace=2.5,
        time_limit=60,
        queue="slow",
        task=TaskMode.WHEN_SLOW,
        task_after=1.5,
        annotations=mcp_types.ToolAnnotations(read_only_hint=True),
        icons=[icon],
        requires={"sampling": {}},
        meta={"example.com/kind": None},
    )
    def function() -> None: ...

    kept = registered_tools()["app.tool-1"]
    assert (kept.title, kept.description) == ("A tool", "Does it.")
    assert (kept.cancel_policy, kept.queue) == (CancelPolicy.COOPERATIVE, "slow")
    assert (kept.cooperative_grace, kept.hard_grace, kept.time_limit) == (0, 2.5, 60)
    assert (kept.task, kept.task_after) == (TaskMode.WHEN_SLOW, 1.5)
    assert kept.requires == {"sampling": {}}
    assert kept.location.startswith("tests.catalogue.test_registry.")
    assert kept.wire_members == {
        "inputSchema": {"type": "object", "additionalProperties": False},
        "annotations": {"readOnlyHint": True},
        "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png"}],
        "_meta": {"example.com/kind": None},
    }


def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    def first() -> None: ...
    def second() -> None: ...

    tool(name="same")(first)
    with pytest.raises(InvalidTool) as caught:
        tool(name="same")(second)
    assert first.__qualname__ in str(caught.value)
    assert second.__qualname__ in str(caught.value)
    assert registered_tools()["same"].function is first


@pytest.mark.parametrize("name", ["", "a b", "a,b", "é", "a/b", "a\n", "x" * 129])
def test_name_that_clients_may_not_take_is_refused(name: str) -> None:
    with pytest.raises(InvalidTool, match="1 to 128 characters"):
        tool(name=name)(lambda: None)


def test_names_are_case_sensitive_and_may_be_128_long() -> None:
    for name in ("Tool", "tool", "x" * 128, "A-z_0.9"):
        tool(name=name)(lambda: None)
    assert len(registered_tools()) == 4


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"icons": [mcp_types.Icon(src="http://example.com/i.png")]}, "https:// or data:"),
        ({"icons": [mcp_types.Icon(src="javascript:alert(1)")]}, "https:// or data:"),
        ({"cooperative_grace": -1}, "cooperative_grace"),
        ({"hard_grace": float("inf")}, "hard_grace"),
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": float("nan")}, "time_limit"),
        ({"queue": "a b"}, "queue"),
        ({"rate": "often"}, "10/m"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"task": "sometimes"}, "sometimes"),
        ({"task_after": -1}, "task_after"),
        ({"cancel": "sometimes"}, "sometimes"),
        ({"annotations": {"readOnlyHint": True}}, "ToolAnnotations"),
        ({"requires": {"sampling": "yes"}}, "sampling"),
        ({"meta": {"a": object()}}, "plain, finite JSON"),
        ({"meta": {"io.modelcontextprotocol/serverInfo": 1}}, r"'io\.modelcontextprotocol/serverInfo' .*key of meta"),
        ({"meta": {"not a key": 1}}, "'not a key' .*key of meta"),
    ],
)
def test_unusable_option_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidTool, match=reason):
        tool(name="t", **options)(lambda: None)
    assert not registered_tools()


def test_what_is_no_function_is_refused() -> None:
    def generate() -> Any:
        yield 1

    class Callable:
        def __call__(self) -> None: ...

    for wrong, reason in [(generate, "is a generator"), (Callable(), "Only functions"), (Callable, "Only functions")]:
        with pytest.raises(InvalidTool, match=reason):
            tool(wrong)  # type: ignore[arg-type]  # the mistake under test


def test_registration_errors_stop_django_as_configuration_errors_do() -> None:
    assert issubclass(InvalidTool, ImproperlyConfigured)


def test_tools_of_every_installed_app_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "app_with_tools"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "mcp_tools.py").write_text(
        "from mcp_app.catalogue.registry import tool\n@tool\ndef found() -> str: return 'yes'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with override_settings(INSTALLED_APPS=[*(each.name for each in apps.get_app_configs()), "app_with_tools"]):
        declaration.autodiscover()
        declaration.autodiscover()
    for module in ("app_with_tools.mcp_tools", "app_with_tools"):
        monkeypatch.delitem(sys.modules, module)
    assert "found" in registered_tools()
