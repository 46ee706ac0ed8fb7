"""`server/discover` and `tools/list` advertise the features that the server has."""

from typing import Any

import pytest
from celery import current_app

from tests.support.asgi_client import META, message, post
from tests.transport.asker import AUTHENTICATOR, caller_with_scopes, set_caller


async def test_discovery_names_versions_capabilities_and_hints() -> None:
    result = (await (await post(message("server/discover"))).json())["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    extensions = {"io.modelcontextprotocol/tasks": {}}
    assert result["capabilities"] == {"tools": {"listChanged": True}, "logging": {}, "extensions": extensions}
    assert result["cacheScope"] == "public"
    assert result["ttlMs"] >= 0
    assert result["_meta"][META + "serverInfo"]["name"] == "mcpsite"
    assert "instructions" not in result


async def test_what_not_everybody_may_ask_for_is_not_to_be_shared(configure) -> None:
    configure(ALLOW_ANONYMOUS=False, AUTHENTICATOR=AUTHENTICATOR)
    set_caller(caller_with_scopes())
    assert (await (await post(message("server/discover"))).json())["result"]["cacheScope"] == "private"


async def test_a_servers_icons_are_where_it_says_who_it_is_and_not_in_every_result(configure) -> None:
    icons = [{"src": "https://example.com/mcp.png", "mimeType": "image/png"}]
    configure(SERVER_ICONS=icons)

    async def info_of(method: str) -> Any:
        return (await (await post(message(method))).json())["result"]["_meta"][META + "serverInfo"]

    assert (await info_of("server/discover"))["icons"] == icons
    assert "icons" not in await info_of("tools/list")


@pytest.mark.parametrize(
    ("urls", "set_name", "expected"),
    [
        ("shop.urls", None, "shop"),
        ("shop_urls", None, "shop_urls"),
        ("config.urls", None, current_app.main),
        ("shop.urls", "orders", "orders"),
    ],
)
async def test_a_server_has_the_name_of_its_project_unless_one_is_set(
    settings, configure, urls: str, set_name: str | None, expected: str
) -> None:
    settings.ROOT_URLCONF = urls
    configure(SERVER_NAME=set_name)
    result = (await (await post(message("server/discover"))).json())["result"]
    assert result["_meta"][META + "serverInfo"]["name"] == expected


async def test_instructions_are_the_settings_own(configure) -> None:
    configure(INSTRUCTIONS="Be kind.")
    assert (await (await post(message("server/discover"))).json())["result"]["instructions"] == "Be kind."


async def test_list_comes_in_pages_of_one_order(configure) -> None:
    configure(PAGE_SIZE=2)
    first = (await (await post(message("tools/list"))).json())["result"]
    assert [tool["name"] for tool in first["tools"]] == ["inquisitive", "regional"]
    assert first["cacheScope"] == "private"
    second = (await (await post(message("tools/list", cursor=first["nextCursor"]))).json())["result"]
    assert [tool["name"] for tool in second["tools"]] == ["work"]
    assert "nextCursor" not in second


async def test_client_that_takes_streams_alone_is_answered_by_one() -> None:
    client = await post(message("server/discover"), accept="text/event-stream")
    await client.head()
    [final] = await client.rest()
    assert final["result"]["resultType"] == "complete"
