"""`@resource`: its declaration, its MCP object, and its checks."""

import re
from typing import Any

import mcp_types
import pytest

from mcp_app.catalogue.errors import InvalidResource
from mcp_app.catalogue.resources import registered_resources
from mcp_app.resources import ReadContext, resource

PNG = mcp_types.Icon(src="https://example.com/i.png", mime_type="image/png", sizes=["48x48"])


def test_a_resource_shows_what_was_said_of_it() -> None:
    @resource(
        "notes://today",
        title="Today",
        mime_type="text/markdown",
        size=12,
        annotations=mcp_types.Annotations(audience=["user"], priority=0.5, last_modified="2026-07-28T00:00:00Z"),
        icons=[PNG],
        meta={"example.com/kind": None},
    )
    def today() -> str:
        """The notes of today.

        Returns:
            Markdown.
        """
        return "# Today"

    assert today() == "# Today"
    assert registered_resources()["notes://today"].wire() == {
        "uri": "notes://today",
        "name": "today",
        "title": "Today",
        "description": "The notes of today.",
        "mimeType": "text/markdown",
        "size": 12,
        "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-07-28T00:00:00Z"},
        "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}],
        "_meta": {"example.com/kind": None},
    }


def test_a_uri_with_variables_is_a_template() -> None:
    @resource("notes://{day}", name="notes of a day")
    async def of_day(day: str, visit: ReadContext) -> str:
        return day

    assert registered_resources()["notes://{day}"].wire() == {
        "uriTemplate": "notes://{day}",
        "name": "notes of a day",
        "description": "Of day",
    }


@pytest.mark.parametrize(
    ("uri", "options", "reason"),
    [
        ("today", {}, "neither a URI"),
        ("notes://{day}/{hour}", {}, "parameters .*day, hour.*: day"),
        ("notes://today", {}, "parameters .*none.*: day"),
        ("notes://{day}", {"size": 1}, "template .*size"),
        ("notes://{day}", {"ttl_ms": -1}, "ttl_ms .*-1"),
        ("notes://{day}", {"ttl_ms": 0.5}, "ttl_ms .*0.5"),
        ("notes://{day}", {"ttl_ms": True}, "ttl_ms .*True"),
        ("notes://{day}", {"cache_scope": "shared"}, 'cache_scope .*"public" or "private"'),
        ("notes://{day}", {"cache_scope": "public", "available": lambda visit: True}, "caller .*public"),
        ("notes://{day}", {"completions": {"hour": lambda value, context: []}}, "completions .*hour"),
        ("notes://{day}", {"completions": {"day": ["today"]}}, "completion .*day .*function"),
        ("notes://{day}", {"annotations": {"priority": 1}}, "mcp_types.Annotations"),
        ("notes://{day}", {"icons": [mcp_types.Icon(src="http://example.com/i.png")]}, "https:// or data:"),
        ("notes://{day}", {"meta": {"a": object()}}, "plain, finite JSON"),
    ],
)
def test_an_unusable_declaration_is_refused(uri: str, options: dict[str, Any], reason: str) -> None:
    def notes(day: str) -> str:
        return day

    with pytest.raises(InvalidResource, match=rf"resource '{re.escape(uri)}' \(.*notes\) .*{reason}"):
        resource(uri, **options)(notes)
    assert not registered_resources()


def test_only_a_template_has_members() -> None:
    with pytest.raises(InvalidResource, match=r"'notes://today' \(.*\) .*template .*members"):
        resource("notes://today", members=lambda visit: [])(lambda: "")


def test_a_parameter_that_text_cannot_fill_is_refused() -> None:
    class Opaque: ...

    def notes(day: Opaque) -> str: ...

    with pytest.raises(InvalidResource, match="JSON cannot represent"):
        resource("notes://{day}")(notes)


def test_two_resources_of_one_uri_are_refused() -> None:
    def first() -> None: ...
    def second() -> None: ...

    resource("notes://today")(first)
    with pytest.raises(InvalidResource, match="'notes://today'") as caught:
        resource("notes://today")(second)
    assert first.__qualname__ in str(caught.value)
    assert second.__qualname__ in str(caught.value)
