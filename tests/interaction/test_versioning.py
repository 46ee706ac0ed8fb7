"""2026-07-28 basic/versioning, and streamable-http "Request Metadata": the era and version of a
request.
"""

from typing import Any

import pytest

from tests.interaction.answers import exchange, rejected_with
from tests.support.asgi_client import META, VERSION, message
from tests.support.legacy_asgi_client import Client, request

LATER = "2099-01-01"
HEADER = "MCP-Protocol-Version"
VERSION_KEY = META + "protocolVersion"


def bare(method: str) -> Any:
    """Return a request without `_meta`."""
    return request(method, 1)


async def test_a_modern_header_makes_any_method_modern(offered: None) -> None:
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe"):
        assert await rejected_with(message(method)) == (404, -32601)
        assert await rejected_with(bare(method)) == (400, -32602)


@pytest.mark.fault("F8")
async def test_header_and_body_agree_before_anything_is_asked_of_the_version(offered: None) -> None:
    unknown = {VERSION_KEY: LATER}
    assert await rejected_with(message("tools/list"), {HEADER: ""}) == (400, -32020)
    assert await rejected_with(message("tools/list"), {HEADER: "2025-11-25"}) == (400, -32020)
    assert await rejected_with(message("tools/list"), {HEADER: LATER}) == (400, -32020)
    assert await rejected_with(message("tools/list", meta=unknown)) == (400, -32020)
    assert await rejected_with(message("tools/list", meta=unknown), {HEADER: LATER}) == (400, -32022)
    assert await rejected_with(bare("tools/list"), {HEADER: LATER}) == (400, -32022)


async def test_an_unsupported_version_is_told_which_there_are(offered: None) -> None:
    _, refusal = await exchange(message("tools/list", meta={VERSION_KEY: LATER}), {HEADER: LATER})
    _, discovered = await exchange(message("server/discover"))
    supported = discovered["result"]["supportedVersions"]
    assert refusal["error"]["data"] == {"supported": supported, "requested": LATER}
    assert supported == [VERSION]


async def test_a_request_that_says_nothing_is_legacy(offered: None) -> None:
    for version in ("", "2025-03-26", "2025-06-18", "2025-11-25"):
        status, answer = await exchange(bare("tools/list"), {HEADER: version})
        assert status == 200
        assert "resultType" not in answer["result"]


async def test_a_session_and_modern_requests_live_side_by_side(offered: None) -> None:
    client = await Client.opened("2025-11-25")
    assert client.session
    status, answer = await exchange(message("tools/list"), {"Mcp-Session-Id": client.session})
    assert (status, answer["result"]["resultType"]) == (200, "complete")
    assert "resultType" not in (await client.ask("tools/list"))["result"]


async def test_an_initialize_is_answered_with_a_version_that_has_one() -> None:
    for asked in (VERSION, LATER):
        answer = await Client(asked).initialize()
        assert answer["result"]["protocolVersion"] == "2025-11-25"
