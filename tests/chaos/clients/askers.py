"""Clients that the server asks for input. They send their answers to any server, or never answer."""

import time
from typing import Any, Final

from tests.chaos.clients.conversation import BROKEN, Conversation, note
from tests.chaos.clients.doors import Doors
from tests.chaos.clients.modern import arguments
from tests.chaos.ledger import Call, Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import Site
from tests.support.site.wire import META, message

ASKED: Final = {META + "clientCapabilities": {"elicitation": {}}}
ANSWER: Final = {"action": "accept", "content": {"yes": True}}
ROUNDS: Final = 4


def asker(site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
    """Make one call whose tool asks twice."""
    conversation = Conversation(site, ledger, errand)
    if (opened := conversation.open("chaos_asking")) is None:
        return
    call, connection = opened
    connection.close()
    answers: dict[str, Any] = {}
    for number in range(ROUNDS):
        said = _say(site, errand, errand.server + number * errand.other, answers, call)
        if said is None:
            return
        if said.get("result", {}).get("resultType") != "input_required":
            note(call, said, call.http)
            return
        if errand.ending in ("fin", "rst", "half") and number == int(errand.twist > 0.5):
            call.end("left", "a question that nobody answers")
            return
        if "requestState" not in said["result"]:
            call.end("cut", f"it asks without a state: {said}")
            return
        time.sleep(errand.after / 4)
        asked = said["result"]["inputRequests"]
        answers = {"requestState": said["result"]["requestState"], "inputResponses": dict.fromkeys(asked, ANSWER)}
    call.end("cut", "it asked too often")


def _say(site: Site, errand: Errand, server: int, answers: dict[str, Any], call: Call) -> dict[str, Any] | None:
    """Send one round, and return the response, or `None` if there was none."""
    call.others.append(server % len(site.ports))
    try:
        connection = site.to(server)
        try:
            connection.wait_at_most(75)
            connection.post(
                message(
                    "tools/call", errand.tag, meta=ASKED, name="chaos_asking", arguments=arguments(errand), **answers
                )
            )
            call.http = connection.response.status
            return connection.answer()
        finally:
            connection.close()
    except TimeoutError:
        call.end("silent", "a round of questions")
    except BROKEN as error:
        call.end("cut", f"{type(error).__name__}: {error}")
    return None
