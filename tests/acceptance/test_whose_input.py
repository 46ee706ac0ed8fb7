"""Only the caller of a call can answer its question, with the state from its response, and before it expires."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.acceptance.test_input import asked, post
from tests.support.site.browsing import Browser
from tests.support.site.inspector import Row
from tests.support.site.layouts import closing
from tests.support.site.legacy_wire import Client as LegacyClient
from tests.support.site.legacy_wire import asked as asked_of
from tests.support.site.legacy_wire import events
from tests.support.site.stack import CONCURRENCY, Stack
from tests.support.site.wire import META, Connection, message, text
from tests.support.waiting import eventually

SETTINGS: Final = "tests.acceptance.signing.settings"
PASSWORD: Final = "a long password"
KNOWS_PAGES: Final = {META + "clientCapabilities": {"elicitation": {"form": {}, "url": {}}}}
ACCEPTED: Final = {"page": {"action": "accept"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with signing(tmp_path_factory.mktemp("signing"), {}) as site:
        yield site


@contextmanager
def signing(data: Path, environment: dict[str, str]) -> Iterator[Stack]:
    """Run the site with two users."""
    with closing(Stack(data, environment, workers=1, settings=SETTINGS)) as site:
        site.serve_from(site.start_embedded(CONCURRENCY))
        for name in ("ada", "eve"):
            site.ask("make user", name=name, password=PASSWORD, permissions=[])
        yield site


def sign(site: Stack, user: str, document: str = "will", **more: Any) -> Connection:
    body = message("tools/call", meta=KNOWS_PAGES, name="sign", arguments={"document": document}, **more)
    return site.post(body, headers={"Authorization": f"Bearer {user}"})


def asks(site: Stack, user: str) -> tuple[str, str, Row]:
    """Make a call that asks. Return its state, the path of the page for its user, and its row."""
    call = sign(site, user)
    result = call.result()
    url = urlsplit(result["inputRequests"]["page"]["params"]["url"])
    assert url.netloc == "signing.test"
    return result["requestState"], f"{url.path}?{url.query}", site.row(call)


def stored(site: Stack, row: Row) -> Row:
    """Return the request's current row, without its age."""
    found = site.inspector.row(id=row.id)
    assert found is not None
    return replace(found, running_for=0.0)


def refused(call: Connection) -> bool:
    error = call.answer()["error"]
    return error["code"] == -32602 and "requestState" in error["message"]


def test_a_page_visited_by_somebody_else_is_refused_and_the_request_stays_unanswered(site: Stack) -> None:
    state, page, row = asks(site, "ada")
    before = stored(site, row)
    assert before.status == "input_required"
    [server] = site.servers
    eve = Browser.of(server.port, "eve", PASSWORD)
    for status, shown in (eve.get(page), eve.post(page)):
        assert status == 403
        assert "CSRF" not in shown
        assert "Sign will" not in shown
    assert Browser(server.port).get(page)[0] == 302
    assert stored(site, row) == before

    again = sign(site, "ada", requestState=state, inputResponses=ACCEPTED).result()
    assert again["resultType"] == "input_required"
    ada = Browser.of(server.port, "ada", PASSWORD)
    status, shown = ada.get(page)
    assert (status, shown.splitlines()[0]) == (200, "Sign will.")
    assert ada.post(page)[0] == 200
    done = sign(site, "ada", requestState=again["requestState"], inputResponses=ACCEPTED).result()
    assert text(done) == "will: accept {'by': 'ada'}"
    assert ada.get(page)[0] == 403


def test_what_its_user_does_on_the_page_answers_an_older_client(site: Stack) -> None:
    [server] = site.servers
    client = LegacyClient.opened(site, server, user="ada", elicitation={"form": {}, "url": {}})
    call = client.call("sign", server, document="will")
    stream = events(call)
    question = asked_of(stream)
    assert question.message is not None
    url = urlsplit(question.message["params"]["url"])
    assert client.reply(question, server, ACCEPTED["page"]) == 202
    assert site.row(call).status == "input_required"
    eve = Browser.of(server.port, "eve", PASSWORD)
    assert eve.post(f"{url.path}?{url.query}")[0] == 403
    assert site.row(call).status == "input_required"
    ada = Browser.of(server.port, "ada", PASSWORD)
    assert ada.get(f"{url.path}?{url.query}")[0] == 200
    assert ada.post(f"{url.path}?{url.query}")[0] == 200
    completed = asked_of(stream, "notifications/elicitation/complete").message
    assert completed is not None
    assert completed["params"] == {"elicitationId": question.message["params"]["elicitationId"]}
    [final] = [event.message for event in stream if event and event.message]
    assert text(final["result"]) == "will: accept {'by': 'ada'}"
    assert client.delete(server) == 200


def test_a_state_is_refused_in_the_hands_of_somebody_else_and_for_another_call(site: Stack) -> None:
    state, _, row = asks(site, "ada")
    before = stored(site, row)
    assert refused(sign(site, "eve", requestState=state, inputResponses=ACCEPTED))
    assert refused(sign(site, "ada", "contract", requestState=state, inputResponses=ACCEPTED))
    assert stored(site, row) == before
    site.ask("cancel", request_id=row.id, reason="")


def test_an_expired_state_is_refused_and_its_call_is_over(tmp_path: Path) -> None:
    with signing(tmp_path, {"MCP_TEST_MAX_INPUT_SECONDS": "1"}) as site:
        state, _, row = asks(site, "ada")
        ended = eventually(lambda: found if (found := stored(site, row)).ended else None, "it expires")
        assert ended is not None
        assert (ended.status, ended.cancel_cause) == ("cancelled", "deadline")
        assert refused(sign(site, "ada", requestState=state, inputResponses=ACCEPTED))
        assert stored(site, row) == ended


@pytest.mark.fault("G11")
@pytest.mark.parametrize("part", [0, 1, 2], ids=["content", "time", "signature"])
def test_a_forged_state_is_refused_and_the_true_one_still_good(stack: Stack, tmp_path: Path, part: int) -> None:
    [server, *_] = stack.servers
    answers = {"order": {"action": "decline"}}
    first = post(stack, server, tmp_path / "lines")
    state = asked(first, "order")
    before = stored(stack, stack.row(first))
    parts = state.split(":")
    middle = len(parts[part]) // 2
    letter = parts[part][middle]
    parts[part] = parts[part][:middle] + ("A" if letter != "A" else "B") + parts[part][middle + 1 :]
    for forged in (":".join(parts), state[:-1], f"{state}A", ""):
        assert refused(post(stack, server, tmp_path / "lines", requestState=forged, inputResponses=answers))
    assert stored(stack, before) == before
    last = post(stack, stack.servers[-1], tmp_path / "lines", requestState=state, inputResponses=answers)
    assert text(last.result()) == "17: decline"
