"""Clients of revision 2026-07-28. They accept JSON or an event stream, and cancel a call by disconnecting."""

from dataclasses import replace
from typing import Any

from tests.chaos.clients.conversation import BROKEN, Conversation
from tests.chaos.clients.doors import Doors
from tests.chaos.ledger import Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import Site
from tests.support.site.wire import BOTH, JSON, message


def arguments(errand: Errand) -> dict[str, Any]:
    return {"tag": errand.tag, "seconds": errand.seconds}


def sse(site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
    """Make a call that asks for progress."""
    _call(site, ledger, doors, errand, BOTH, {"progressToken": errand.tag})


def json(site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
    """Make a call whose client accepts only JSON."""
    _call(site, ledger, doors, errand, JSON, {})


def _call(site: Site, ledger: Ledger, doors: Doors, errand: Errand, accept: str, meta: dict[str, Any]) -> None:
    if errand.ending == "word":
        errand = replace(errand, ending="fin")
    door = {"command": doors.command, "admin": doors.admin}.get(errand.ending)
    conversation = Conversation(site, ledger, errand, door=door)
    if (opened := conversation.open()) is None:
        return
    call, connection = opened
    body = message("tools/call", errand.tag, meta=meta, name=errand.tool, arguments=arguments(errand))
    try:
        connection.post(body, accept=accept)
    except BROKEN as error:
        call.end("cut", f"sending: {error}")
        connection.close()
        return
    conversation.hear(call, connection)
