"""Fixed sequences: a request of every method, with every name on offer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcp_app.protocol.revisions import MODERN
from tests.schemas.offered import Offer
from tests.schemas.steps import ABLE, ANSWERED, META, RETRY, TASK, TASKS, Message, Step, calls, gets, references


def _one_of_everything(offer: Offer, own: Mapping[str, Sequence[Any]], meta: Message) -> list[Step]:
    """Make valid and some invalid requests of every method.

    `own`: requests by method that depend on the revision.
    """
    shared = {
        **{method: ({}, {"cursor": "none"}) for method in ("tools/list", "resources/list", "prompts/list")},
        "resources/templates/list": ({},),
        "tools/call": calls(offer),
        "resources/read": [{"uri": uri} for uri in offer.uris],
        "prompts/get": gets(offer),
        "completion/complete": [
            {"ref": reference, "argument": argument} for reference in references(offer) for argument in offer.completed
        ],
    }
    asked = [(method, params) for method, given in {**shared, **own}.items() for params in given]
    return [
        Step({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}})
        for number, (method, params) in enumerate(asked)
    ]


def everything_modern(offer: Offer) -> list[Step]:
    """Make a sequence for 2026-07-28 and the tasks extension. The client has all capabilities."""
    answers = {
        offer.question: {"action": "accept", "content": dict(offer.answer)},
        "model": ANSWERED["sampling/createMessage"],
        "roots": ANSWERED["roots/list"],
    }
    chosen = {"toolsListChanged": True, "resourceSubscriptions": [offer.uris[0]], "taskIds": [TASK]}
    own = {
        "server/discover": ({},),
        "tools/call": [*calls(offer), {**RETRY, "inputResponses": {}}, {**RETRY, "inputResponses": answers}],
        "subscriptions/listen": ({"notifications": chosen},),
        "tasks/get": ({"taskId": TASK},),
        "tasks/update": ({"taskId": TASK, "inputResponses": answers},),
        "tasks/cancel": ({"taskId": TASK},),
    }
    capabilities = {**ABLE, "extensions": TASKS}
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities, "progressToken": 0}
    meta[META + "logLevel"] = "debug"
    nothing = {"notifications": {}, "_meta": meta}
    ended = {"jsonrpc": "2.0", "id": "ended", "method": "subscriptions/listen", "params": nothing}
    return [*_one_of_everything(offer, own, meta), Step(ended, reads=2)]


def everything_legacy(offer: Offer) -> list[Step]:
    """Make a sequence for the earlier revisions.

    It has each call once with answers and once declining.
    """
    own = {
        "logging/setLevel": ({"level": "debug"},),
        "ping": ({},),
        "resources/subscribe": [{"uri": uri} for uri in offer.uris],
        "resources/unsubscribe": [{"uri": offer.uris[0]}],
    }
    asked = [replace(step, replies=("accept",) * 3) for step in _one_of_everything(offer, own, {"progressToken": 0})]
    return [*asked, *(step for step in _one_of_everything(offer, {}, {}) if step.body["method"] == "tools/call")]
