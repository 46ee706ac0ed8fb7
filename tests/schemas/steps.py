"""One thing that a client does, and the words that its messages are made of.

A `Step` is abstract: `$task`, `$state`, `$asked` and `$event` stand for what the server said before.
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
"""A result for each request of a server's."""

Message = dict[str, Any]

RETRY: Final = {"name": ASKED, "arguments": {}, "requestState": STATE}
"""Params of the call that comes back."""


@dataclass(frozen=True)
class Step:
    """One thing that a client does: a POST or a line, unless `http_method` is another."""

    body: Any = None
    """A JSON value, or bytes that are none."""
    headers: dict[str, str] = field(default_factory=dict)
    """Which replace those that belong to the body; empty ones are left out."""
    http_method: str = "POST"
    reads: int | None = None
    """How many messages it waits for before it leaves; None: all, unless the answer would never end."""
    replies: tuple[str, ...] = ()
    """How it answers what it is asked meanwhile, one after the other; then it declines."""


def calls(offer: Offer) -> list[Message]:
    """Params of `tools/call`."""
    named = [{"name": name, "arguments": dict(each)} for name, given in offer.tools.items() for each in given]
    return [*named, {"name": next(iter(offer.tools))}, {"name": "unknown", "arguments": {}}]


def gets(offer: Offer) -> list[Message]:
    """Params of `prompts/get`."""
    named = [{"name": name, "arguments": dict(each)} for name, given in offer.prompts.items() for each in given]
    return [*named, {"name": next(iter(offer.prompts))}]


def references(offer: Offer) -> list[Message]:
    """What `completion/complete` may be of, and may not."""
    prompts = [{"type": "ref/prompt", "name": name} for name in (*offer.prompts, "nothing")]
    return [
        *prompts,
        *({"type": "ref/resource", "uri": uri} for uri in offer.templates),
        {"type": "ref/tool", "name": "x"},
    ]


def holds(message: Any, offer: Offer) -> bool:
    """Whether its answer would never end by itself."""
    if not isinstance(message, dict) or not isinstance(params := message.get("params"), dict):
        return False
    name = params.get("name")
    return message.get("method") == "subscriptions/listen" or (isinstance(name, str) and name in offer.held)
