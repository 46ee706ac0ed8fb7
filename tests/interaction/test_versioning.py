"""2026-07-28 basic/versioning, and streamable-http "Request Metadata": which era a request is of, and its version."""

from typing import Any

import pytest

from tests.interaction.answers import exchange, refused
from tests.transport.client import META, VERSION, message, run
from tests.transport.legacy_client import Client, request

LATER = "2099-01-01"
HEADER = "MCP-Protocol-Version"
VERSION_KEY = META + "protocolVersion"


def bare(method: str) -> Any:
    """A request that says nothing of itself."""
    return request(method, 1)


def test_a_modern_header_makes_any_method_modern(offered: None) -> None:
    async def scenario() -> None:
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe"):
            assert await refused(message(method)) == (404, -32601)
            assert await refused(bare(method)) == (400, -32602)

    run(scenario())


@pytest.mark.fault("F8")
def test_header_and_body_agree_before_anything_is_asked_of_the_version(offered: None) -> None:
    unknown = {VERSION_KEY: LATER}

    async def scenario() -> None:
        assert await refused(message("tools/list"), {HEADER: ""}) == (400, -32020)
        assert await refused(message("tools/list"), {HEADER: "2025-11-25"}) == (400, -32020)
        assert await refused(message("tools/list"), {HEADER: LATER}) == (400, -32020)
        assert await refused(message("tools/list", meta=unknown)) == (400, -32020)
        assert await refused(message("tools/list", meta=unknown), {HEADER: LATER}) == (400, -32022)
        assert await refused(bare("tools/list"), {HEADER: LATER}) == (400, -32022)

    run(scenario())


def test_an_unsupported_version_is_told_which_there_are(offered: None) -> None:
    async def scenario() -> None:
        _, refusal = await exchange(message("tools/list", meta={VERSION_KEY: LATER}), {HEADER: LATER})
        _, discovered = await exchange(message("server/discover"))
        supported = discovered["result"]["supportedVersions"]
        assert refusal["error"]["data"] == {"supported": supported, "requested": LATER}
        assert supported == [VERSION]

    run(scenario())


def test_a_request_that_says_nothing_is_legacy(offered: None) -> None:
    async def scenario() -> None:
        for version in ("", "2025-03-26", "2025-06-18", "2025-11-25"):
            status, answer = await exchange(bare("tools/list"), {HEADER: version})
            assert status == 200
            assert "resultType" not in answer["result"]

    run(scenario())


def test_a_session_and_modern_requests_live_side_by_side(offered: None) -> None:
    async def scenario() -> None:
        client = await Client.opened("2025-11-25")
        assert client.session
        status, answer = await exchange(message("tools/list"), {"Mcp-Session-Id": client.session})
        assert (status, answer["result"]["resultType"]) == (200, "complete")
        assert "resultType" not in (await client.ask("tools/list"))["result"]

    run(scenario())


def test_an_initialize_is_answered_with_a_version_that_has_one() -> None:
    async def scenario() -> None:
        for asked in (VERSION, LATER):
            answer = await Client(asked).initialize()
            assert answer["result"]["protocolVersion"] == "2025-11-25"

    run(scenario())
