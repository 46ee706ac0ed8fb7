"""Results for an older revision have no feature that is newer than it."""

from typing import Any

import pytest

from mcp_app.protocol import results
from mcp_app.protocol.errors import INVALID_PARAMS, fail, method_not_found, missing_client_capability
from mcp_app.protocol.legacy import results as legacy_results
from mcp_app.protocol.revisions import LEGACY

SERVER = {"name": "s", "version": "1", "title": "S", "websiteUrl": "https://example.com"}
OLD, MIDDLE, LATEST = LEGACY.values()
ICONS = {"icons": [{"src": "https://example.com/i.png"}]}
TOOL = {
    "name": "t",
    "title": "T",
    "description": "d",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "_meta": {"a": 1},
    **ICONS,
}
LINK = {"type": "resource_link", "uri": "test://x", "name": "x", **ICONS}


def listed(revision: Any, tool: dict[str, Any]) -> dict[str, Any]:
    page = results.list_page("tools", [tool], next_cursor="c", ttl_ms=1, cache_scope="private")
    result = legacy_results.legacy_result(revision, "tools/list", results.complete(page, SERVER))
    assert result.keys() == {"tools", "nextCursor"}
    [found] = result["tools"]
    assert isinstance(found, dict)
    return found


def test_a_tool_has_the_members_of_its_revision() -> None:
    base = {"name", "description", "inputSchema", "annotations"}
    assert listed(OLD, TOOL).keys() == base
    assert listed(MIDDLE, TOOL).keys() == base | {"title", "outputSchema", "_meta"}
    assert listed(LATEST, TOOL).keys() == TOOL.keys()


def test_only_objects_are_structured_before_the_modern_era() -> None:
    assert "outputSchema" not in listed(LATEST, {**TOOL, "outputSchema": {"type": "array"}})
    for value, kept in (({"a": 1}, True), ([1], False), (None, False)):
        result = results.complete({"content": [], "structuredContent": value}, SERVER)
        assert ("structuredContent" in legacy_results.legacy_result(LATEST, "tools/call", result)) == kept
        assert "structuredContent" not in legacy_results.legacy_result(OLD, "tools/call", result)


def test_a_link_is_text_where_links_are_unknown() -> None:
    for revision, block in (
        (OLD, {"type": "text", "text": "x: test://x"}),
        (MIDDLE, {"type": "resource_link", "uri": "test://x", "name": "x"}),
        (LATEST, LINK),
    ):
        result = legacy_results.legacy_result(revision, "tools/call", results.complete({"content": [LINK]}, SERVER))
        assert result == {"content": [block]}


def test_own_meta_stays_and_what_is_reserved_goes() -> None:
    result = results.complete({"content": [], "_meta": {"own/key": 1}}, SERVER)
    assert legacy_results.legacy_result(LATEST, "tools/call", result) == {"content": [], "_meta": {"own/key": 1}}
    assert legacy_results.legacy_result(LATEST, "ping", results.complete({}, SERVER)) == {}


def test_the_stored_result_is_left_as_it_is() -> None:
    stored = {"content": [LINK], "structuredContent": [1]}
    legacy_results.legacy_result(OLD, "tools/call", stored)
    assert stored == {"content": [LINK], "structuredContent": [1]}


def test_resources_and_prompts_lose_what_is_newer() -> None:
    annotations = {"priority": 1, "lastModified": "2025-01-01T00:00:00Z"}
    resource = {"uri": "test://x", "name": "x", "title": "X", "size": 1, "annotations": annotations, **ICONS}
    [old] = legacy_results.legacy_result(OLD, "resources/list", {"resources": [resource]})["resources"]
    assert old == {"uri": "test://x", "name": "x", "size": 1, "annotations": {"priority": 1}}
    prompt = {"name": "p", "title": "P", "arguments": [{"name": "a", "title": "A", "required": True}]}
    [old] = legacy_results.legacy_result(OLD, "prompts/list", {"prompts": [prompt]})["prompts"]
    assert old == {"name": "p", "arguments": [{"name": "a", "required": True}]}
    messages = [{"role": "user", "content": {"type": "text", "text": "x", "_meta": {"a": 1}}}]
    got = legacy_results.legacy_result(OLD, "prompts/get", {"messages": messages})
    assert got == {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]}
    contents = [{"uri": "test://x", "text": "x", "_meta": {"a": 1}}]
    assert legacy_results.legacy_result(OLD, "resources/read", {"contents": contents, "ttlMs": 1}) == {
        "contents": [{"uri": "test://x", "text": "x"}]
    }


@pytest.mark.parametrize(
    ("revision", "members"),
    [(OLD, {"name", "version"}), (MIDDLE, {"name", "version", "title"}), (LATEST, SERVER.keys())],
)
def test_the_server_is_introduced_in_the_sessions_terms(revision: Any, members: Any) -> None:
    result = legacy_results.initialize_result(revision, {"tools": {}}, SERVER, "Be kind.")
    assert result["serverInfo"].keys() == members
    assert (result["protocolVersion"], result["instructions"]) == (revision.name, "Be kind.")


def test_errors_have_the_codes_of_the_era() -> None:
    def code(method: str, rejection: Any) -> tuple[int, int]:
        found = legacy_results.legacy_rejection(method, rejection)
        return found.code, found.status

    assert code("x", method_not_found("x", 1)) == (-32601, 200)
    assert code("tools/call", missing_client_capability({"sampling": {}}, 1)) == (-32600, 200)
    assert code("resources/read", fail(INVALID_PARAMS, "No.", 1, data={"uri": "test://x"})) == (-32002, 200)
    assert code("tools/call", fail(INVALID_PARAMS, "No.", 1)) == (-32602, 200)
