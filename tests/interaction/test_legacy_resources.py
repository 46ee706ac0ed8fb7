"""2025-11-25 and earlier, server/resources, server/prompts, in the form of the session's revision."""

import json
from typing import Any

import pytest

from mcp_app.catalogue import changes
from mcp_app.models import Session
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from tests.support.legacy_asgi_client import Client, Stream, request
from tests.support.worker import in_thread

pytestmark = pytest.mark.usefixtures("offered")

NOTES = "notes://today"


async def listening(client: Client) -> Stream:
    stream = await client.get()
    assert (await stream.next_event()).message is None
    return stream


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_what_is_offered_is_listed_in_the_words_of_the_revision(version: str) -> None:
    client = await Client.opened(version)
    [today] = [each for each in (await client.ask("resources/list"))["result"]["resources"] if each["uri"] == NOTES]
    assert ("title" in today) == (version != "2025-03-26")
    assert today["size"] == 7
    templates = await client.ask("resources/templates/list")
    assert templates["result"].keys() == {"resourceTemplates"}
    prompts = (await client.ask("prompts/list"))["result"]["prompts"]
    assert {each["name"] for each in prompts} == {"review", "broken_prompt"}
    read = await client.ask("resources/read", uri=NOTES)
    assert read["result"] == {"contents": [{"uri": NOTES, "mimeType": "text/markdown", "text": "# Today"}]}
    got = await client.ask("prompts/get", name="review", arguments={"code": "1"})
    assert got["result"]["messages"][0]["content"]["text"] == "Review this python: 1"
    completed = await client.ask(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "review"},
        argument={"name": "language", "value": "t"},
    )
    assert completed["result"]["completion"]["values"] == ["tuesday", "thursday"]


async def test_capabilities_say_what_is_offered() -> None:
    answer = await Client().initialize()
    assert answer["result"]["capabilities"] == {
        "tools": {"listChanged": True},
        "logging": {},
        "resources": {"listChanged": True, "subscribe": True},
        "prompts": {"listChanged": True},
        "completions": {},
    }


@pytest.mark.parametrize("method", ["resources/read", "resources/subscribe"])
async def test_an_unknown_resource_is_minus_32002(method: str) -> None:
    client = await Client.opened()
    answer = await client.ask(method, uri="notes://nowhere")
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32002, {"uri": "notes://nowhere"})


async def test_changes_of_a_watched_resource_are_told_until_it_is_watched_no_more() -> None:
    client = await Client.opened()
    stream = await listening(client)
    assert (await client.ask("resources/subscribe", uri=NOTES))["result"] == {}
    await in_thread(changes.touch, changes.resource_subject(NOTES))
    told = (await stream.next_event()).message
    assert (told["method"], told["params"]) == ("notifications/resources/updated", {"uri": NOTES})
    assert (await client.ask("resources/unsubscribe", uri=NOTES))["result"] == {}
    await in_thread(changes.touch, changes.resource_subject(NOTES))
    await in_thread(changes.touch, changes.RESOURCES)
    assert (await stream.next_event()).message["method"] == "notifications/resources/list_changed"


async def test_what_was_watched_before_a_stream_is_opened_is_told_on_it() -> None:
    client = await Client.opened()
    await client.ask("resources/subscribe", uri=NOTES)
    await in_thread(changes.touch, changes.resource_subject(NOTES), changes.PROMPTS)
    stream = await listening(client)
    told = {(await stream.next_event()).message["method"] for _ in range(2)}
    assert told == {"notifications/resources/updated", "notifications/prompts/list_changed"}


async def test_a_session_watches_a_bounded_number_of_resources(configure: Any) -> None:
    configure(MAX_RESOURCE_SUBSCRIPTIONS=1)
    client = await Client.opened()
    for _ in range(2):
        assert (await client.ask("resources/subscribe", uri=NOTES))["result"] == {}
    assert (await client.ask("resources/subscribe", uri="image://dot"))["error"]["code"] == -32602
    assert (await in_thread(Session.objects.get)).subscriptions == [NOTES]
    stateless = await Client().post(request("resources/subscribe", uri=NOTES))
    assert stateless.status == 400
    assert "session" in json.loads(await stateless.body())["error"]["message"]
