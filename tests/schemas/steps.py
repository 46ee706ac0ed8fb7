"""The steps of a client's sequence, and parts of its messages.

A `Step` may have placeholders: `$task`, `$state`, `$asked` and `$event` stand for values that the
server sent before.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.schemas.offered import Offer

META: Final = "io.modelcontextprotocol/"
ABLE: Final = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
TASKS: Final = {META + "tasks": {}}
TASK, STATE, ASKED, EVENT = "$task", "$state", "$asked", "$event"

ANSWERED: Final = {
    "elicitation/create": {"action": "accept", "content": {"n": 3}},
    "sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}},
    "roots/list": {"roots": [{"uri": "file:///srv"}]},
    "ping": {},
}
"""A result for each request from a server."""

Message = dict[str, Any]

RETRY: Final = {"name": ASKED, "arguments": {}, "requestState": STATE}
"""Params of a call that is sent again with its answers."""


@dataclass(frozen=True)
class Step:
    """One message of a client: a POST or a line, unless `http_method` is another."""

    body: Any = None
    """A JSON value, or bytes that are not JSON."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers that replace those made from the body. Empty ones are left out."""
    http_method: str = "POST"
    reads: int | None = None
    """How many messages the client reads before it leaves. `None`: all, unless the response would
    never end."""
    replies: tuple[str, ...] = ()
    """How the client answers the server's requests, in order. It declines any further ones."""


def calls(offer: Offer) -> list[Message]:
    """Return params of `tools/call`."""
    named = [{"name": name, "arguments": dict(each)} for name, given in offer.tools.items() for each in given]
    return [*named, {"name": next(iter(offer.tools))}, {"name": "unknown", "arguments": {}}]


def gets(offer: Offer) -> list[Message]:
    """Return params of `prompts/get`."""
    named = [{"name": name, "arguments": dict(each)} for name, given in offer.prompts.items() for each in given]
    return [*named, {"name": next(iter(offer.prompts))}]


def references(offer: Offer) -> list[Message]:
    """Return valid and invalid references for `completion/complete`."""
    prompts = [{"type": "ref/prompt", "name": name} for name in (*offer.prompts, "nothing")]
    return [
        *prompts,
        *({"type": "ref/resource", "uri": uri} for uri in offer.templates),
        {"type": "ref/tool", "name": "x"},
    ]


def holds(message: Any, offer: Offer) -> bool:
    """Return whether the response to a message never ends by itself."""
    if not isinstance(message, dict) or not isinstance(params := message.get("params"), dict):
        return False
    name = params.get("name")
    return message.get("method") == "subscriptions/listen" or (isinstance(name, str) and name in offer.held)
