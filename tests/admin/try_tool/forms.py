"""Helpers that fill in and send the form that tries a tool."""

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.test import Client

from mcp_app import databases
from mcp_app.models import Request
from tests.admin.conftest import SEE
from tests.admin.pages import words

LogIn = Callable[..., Client]


TOOLS = "/admin/mcp_app/tool/"


CALL = "call_tool"


SEE_TOOLS = "view_tool"


MAY = (CALL, SEE_TOOLS, SEE)


SECRET = "hush-4711"


class Recorder:
    """Replaces the broker, and records the messages."""

    def __init__(self) -> None:
        self.sent: list[UUID] = []
        self.was_atomic = False

    def send_task(self, name: str, task_id: str, queue: str) -> None:
        self.was_atomic |= databases.connection().in_atomic_block
        self.sent.append(UUID(task_id))

    def broadcast(self, command: str, arguments: dict[str, list[str]]) -> None: ...


def address(name: str = "search") -> str:
    return f"{TOOLS}{name}/try/"


def run(client: Client, name: str = "search", **filled: Any) -> Any:
    """Send the form with these values in its fields."""
    fields = {f"argument/{argument}": value for argument, value in filled.items()}
    return send(client, name, {"_mode": "fields", **fields})


def send(client: Client, name: str, form: dict[str, str], **headers: str) -> Any:
    """Load the page, and send its form with these values."""
    return client.post(address(name), {"_page": loaded(client, name), **form}, **headers)


def loaded(client: Client, name: str = "search") -> str:
    """Load the page, and return the id of its form, or an empty text if it has no form."""
    found = re.search(r'name="_page" value="([^"]+)"', client.get(address(name)).content.decode())
    return found[1] if found else ""


def refused(client: Client, name: str = "search", **filled: Any) -> str:
    """Return the only error of a rejected call, after its field, and check that the call has left no rows."""
    before = Request.objects.count()
    response = run(client, name, **filled)
    [(field, [told])] = response.context["form"].errors.items()
    assert told in words(response)
    assert Request.objects.count() == before
    assert not LogEntry.objects.exists()
    return f"{field}: {told}"


def called() -> Request:
    return Request.objects.get()
