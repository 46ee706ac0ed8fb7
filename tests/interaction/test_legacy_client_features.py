"""2025-03-26 to 2025-11-25, client/elicitation, client/sampling, client/roots: the server's
requests.

The tests use prompts, whose authors ask in the same way as authors of tools.
"""

import json
from typing import Any, Literal

import pytest
from mcp_types.methods import SERVER_REQUESTS
from pydantic import BaseModel

from mcp_app.prompts import ReadContext, prompt
from mcp_app.protocol.revisions import LEGACY_REVISIONS
from tests.support.legacy_asgi_client import Client, Event, Stream, request

pytestmark = pytest.mark.usefixtures("_prompts")


OLD, MIDDLE, LATEST = LEGACY_REVISIONS
FORM, PAGE = {"elicitation": {}}, {"elicitation": {"url": {}}}
SAMPLING: dict[str, Any] = {"sampling": {}}
ROOTS: dict[str, Any] = {"roots": {"listChanged": True}}


class Order(BaseModel):
    quantity: int = 2
    size: Literal["small", "large"] = "small"
    sure: bool = True


class Toppings(BaseModel):
    toppings: list[Literal["ham", "olives"]]


@pytest.fixture
def _prompts() -> None:
    @prompt
    def form(visit: ReadContext) -> str:
        answer = visit.elicit("order", "What do you want?", Order)
        return f"{answer.action} {answer.content}"

    @prompt
    def choice(visit: ReadContext) -> str:
        return visit.elicit("toppings", "Which?", Toppings).action

    @prompt
    def page(visit: ReadContext) -> str:
        return visit.elicit_url("page", "Sign there.", "https://example.com/sign").action

    @prompt
    def sample(visit: ReadContext) -> str:
        return visit.sample("sample", "Say something.", max_tokens=9).model

    @prompt
    def roots(visit: ReadContext) -> str:
        return ", ".join(str(root.uri) for root in visit.roots())


async def got(client: Client, name: str) -> Stream:
    return await client.post(request("prompts/get", name=name))


async def asked(stream: Stream, version: str, method: str) -> Any:
    """Return the server's request, and check that the revision has it and its types accept it."""
    event: Event = await stream.next_event()
    SERVER_REQUESTS[method, version].model_validate(event.message, by_name=False)
    assert event.message["method"] == method
    return event.message


async def answered(client: Client, stream: Stream, question: Any, result: Any = None, error: Any = None) -> Any:
    """Return the response to the prompt."""
    await client.reply(question["id"], result, error=error)
    [final] = await stream.events()
    return final.message


def text(message: Any) -> str:
    return str(message["result"]["messages"][0]["content"]["text"])


@pytest.mark.parametrize(
    ("version", "declares", "name"),
    [
        (OLD, {}, "roots"),
        (OLD, FORM, "form"),
        (OLD, FORM, "sample"),
        (MIDDLE, {}, "form"),
        (MIDDLE, SAMPLING, "form"),
        (MIDDLE, {"elicitation": {"url": {}}}, "page"),
        (MIDDLE, FORM, "choice"),
        (LATEST, {}, "form"),
        (LATEST, PAGE, "form"),
        (LATEST, FORM, "page"),
        (LATEST, FORM, "sample"),
        (LATEST, SAMPLING, "roots"),
    ],
)
async def test_capabilities_what_is_not_declared_or_not_known_is_not_sent(
    version: str, declares: Any, name: str
) -> None:
    client = await Client.opened(version, **declares)
    refused = await got(client, name)
    assert refused.headers["content-type"] == "application/json"
    assert json.loads(await refused.body())["error"]["code"] == -32600


@pytest.mark.parametrize("version", [MIDDLE, LATEST])
@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"action": "accept", "content": {"quantity": 3}}, "accept quantity=3 size='small' sure=True"),
        ({"action": "decline"}, "decline None"),
        ({"action": "cancel"}, "cancel None"),
    ],
)
async def test_elicitation_response_actions_reach_the_author(version: str, result: Any, words: str) -> None:
    client = await Client.opened(version, **FORM)
    stream = await got(client, "form")
    question = await asked(stream, version, "elicitation/create")
    assert text(await answered(client, stream, question, result)) == words


@pytest.mark.parametrize("version", [MIDDLE, LATEST])
async def test_elicitation_requested_schema_is_the_revisions(version: str) -> None:
    client = await Client.opened(version, **FORM)
    stream = await got(client, "form")
    question = await asked(stream, version, "elicitation/create")
    fields = question["params"]["requestedSchema"]["properties"]
    assert [name for name in fields if "default" in fields[name]] == (
        ["sure"] if version == MIDDLE else ["quantity", "size", "sure"]
    )
    assert fields["size"]["enum"] == ["small", "large"]
    assert ("mode" in question["params"]) == (version == LATEST)
    await answered(client, stream, question, {"action": "cancel"})


async def test_elicitation_url_mode_has_an_id_and_is_accepted_by_consent() -> None:
    client = await Client.opened(LATEST, **PAGE)
    stream = await got(client, "page")
    question = await asked(stream, LATEST, "elicitation/create")
    assert question["params"]["mode"] == "url"
    assert question["params"]["elicitationId"]
    assert text(await answered(client, stream, question, {"action": "accept"})) == "accept"


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_sampling_creating_messages_and_their_rejection(version: str) -> None:
    client = await Client.opened(version, **SAMPLING)
    stream = await got(client, "sample")
    question = await asked(stream, version, "sampling/createMessage")
    assert not question["params"].keys() & {"tools", "toolChoice", "includeContext"}
    said = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m", "stopReason": "endTurn"}
    assert text(await answered(client, stream, question, said)) == "m"
    stream = await got(client, "sample")
    question = await asked(stream, version, "sampling/createMessage")
    error = {"code": -1, "message": "User rejected sampling request"}
    refused = await answered(client, stream, question, error=error)
    assert refused["error"]["code"] == -32600
    assert "User rejected sampling request" in refused["error"]["message"]


@pytest.mark.parametrize("version", LEGACY_REVISIONS)
async def test_roots_listing(version: str) -> None:
    client = await Client.opened(version, **ROOTS)
    stream = await got(client, "roots")
    question = await asked(stream, version, "roots/list")
    result = {"roots": [{"uri": "file:///home/ada", "name": "Home"}]}
    assert text(await answered(client, stream, question, result)) == "file:///home/ada"
