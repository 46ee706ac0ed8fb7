"""Clients of the tasks extension. They create a task, poll it at every server until it ends, and may cancel it."""

import time
from typing import Any, Final

from tests.chaos.clients.conversation import BROKEN, Conversation, note
from tests.chaos.clients.doors import Doors
from tests.chaos.clients.modern import arguments
from tests.chaos.ledger import Call, Ledger
from tests.chaos.plan import Errand
from tests.chaos.site import Site
from tests.support.site.wire import META, message

KNOWS: Final = {META + "clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}}
PATIENCE: Final = 75.0
POLL: Final = 0.25


def task(site: Site, ledger: Ledger, doors: Doors, errand: Errand) -> None:
    """Create one task and poll it, unless the errand is to leave."""
    conversation = Conversation(site, ledger, errand)
    if (opened := conversation.open("chaos_task")) is None:
        return
    call, connection = opened
    try:
        body = message("tools/call", errand.tag, meta=KNOWS, name="chaos_task", arguments=arguments(errand))
        connection.wait_at_most(PATIENCE)
        connection.post(body)
        made = connection.answer()
    except BROKEN as error:
        call.end("cut", f"{type(error).__name__}: {error}")
        return
    finally:
        connection.close()
    if made.get("result", {}).get("resultType") != "task":
        note(call, made, connection.response.status)
        return
    task_id = made["result"]["taskId"]
    if errand.ending in ("fin", "rst", "half"):
        call.end("left", "a task that nobody asks for")
        return
    _watch(site, errand, call, task_id)


def _watch(site: Site, errand: Errand, call: Call, task_id: str) -> None:
    cancel_at = time.monotonic() + errand.after if errand.ending in ("word", "admin", "command") else None
    give_up_at = time.monotonic() + PATIENCE
    server = errand.server
    while time.monotonic() < give_up_at:
        if cancel_at is not None and time.monotonic() > cancel_at:
            cancel_at = None
            said = ask(site, server, "tasks/cancel", task_id)
            call.doors.append("word: " + ("nothing" if said is None else "error" if "error" in said else "202"))
        server += 1
        found = ask(site, server, "tasks/get", task_id)
        shown = (found or {}).get("result")
        if shown is not None and shown.get("status") not in ("working", "input_required"):
            call.responses += 1
            call.note = f"task {shown['status']}"
            call.answer = shown.get("result")
            call.error = shown.get("error")
            call.end("answered")
            return
        if found is not None and "error" in found and "such task" in found["error"]["message"]:
            call.error = found["error"]
            call.end("silent", f"its task is not known: {found['error']}")
            return
        time.sleep(POLL)
    call.end("silent", "its task did not end")


def ask(site: Site, server: int, method: str, task_id: str, **params: Any) -> dict[str, Any] | None:
    """Send a request, and return the response, or `None` if there was none."""
    try:
        connection = site.to(server)
        try:
            connection.wait_at_most(30)
            connection.post(message(method, meta=KNOWS, taskId=task_id, **params))
            return connection.answer()
        finally:
            connection.close()
    except BROKEN:
        return None
