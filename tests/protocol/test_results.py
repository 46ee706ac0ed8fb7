from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from mcp_app.protocol import results
from mcp_app.protocol.metadata import SERVER_INFO, SUBSCRIPTION_ID
from mcp_app.protocol.revisions import MODERN

SERVER = {"name": "test", "version": "1.0"}
TOOL = {"name": "echo", "description": "d", "inputSchema": {"type": "object", "additionalProperties": False}}


def check_modern(method: str, result: dict[str, Any]) -> None:
    """Check that the official wire types accept a result and that it names its type and server."""
    validate_server_result(method, MODERN, result)
    assert result["resultType"] == "complete"
    assert result["_meta"][SERVER_INFO] == SERVER


def test_discover_lists_the_versions_and_its_cache_hints() -> None:
    result = results.discover(
        capabilities={"tools": {"listChanged": True}},
        instructions="use it",
        server_info=SERVER,
        ttl_ms=0,
        cache_scope="public",
    )
    check_modern("server/discover", result)
    assert result["supportedVersions"] == ["2026-07-28"]
    assert (result["ttlMs"], result["cacheScope"], result["instructions"]) == (0, "public", "use it")


def test_discover_without_instructions_has_no_such_member() -> None:
    result = results.discover(capabilities={}, instructions=None, server_info=SERVER, ttl_ms=1, cache_scope="private")
    check_modern("server/discover", result)
    assert "instructions" not in result


@pytest.mark.parametrize(("cursor", "member"), [(None, {}), ("", {"nextCursor": ""}), ("c", {"nextCursor": "c"})])
def test_a_page_of_tools_ends_without_a_cursor(cursor: str | None, member: dict[str, str]) -> None:
    page = results.list_page("tools", [TOOL], next_cursor=cursor, ttl_ms=5000, cache_scope="private")
    result = results.complete(page, SERVER)
    check_modern("tools/list", result)
    assert result["tools"] == [TOOL]
    assert {key: result[key] for key in result if key == "nextCursor"} == member


def test_a_stored_call_passes_through_with_its_nulls() -> None:
    stored = {
        "content": [{"type": "text", "text": "null"}],
        "structuredContent": None,
        "_meta": {"com.example/x": 1, SERVER_INFO: {"name": "forged"}},
    }
    result = results.complete(stored, SERVER)
    check_modern("tools/call", result)
    assert result["structuredContent"] is None
    assert result["_meta"]["com.example/x"] == 1
    assert stored["_meta"] == {"com.example/x": 1, SERVER_INFO: {"name": "forged"}}


def test_a_tool_error_is_a_result_that_a_model_can_read() -> None:
    result = results.complete(results.tool_error("stopped"), SERVER)
    check_modern("tools/call", result)
    assert (result["isError"], result["content"][0]["text"]) == (True, "stopped")


@pytest.mark.parametrize("subscription_id", [0, "", 1, "1"])
def test_a_closed_subscription_names_itself_with_the_clients_type(subscription_id: str | int) -> None:
    result = results.listen_closed(subscription_id, SERVER)
    check_modern("subscriptions/listen", result)
    assert result["_meta"][SUBSCRIPTION_ID] == subscription_id
    assert type(result["_meta"][SUBSCRIPTION_ID]) is type(subscription_id)
