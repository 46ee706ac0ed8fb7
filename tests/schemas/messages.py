"""Strategies for clients' messages: valid and invalid requests, notifications, responses, bytes."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from hypothesis import strategies as st

from mcp_app.protocol.revisions import ASSUMED_LEGACY, LATEST_LEGACY, LEGACY_REVISIONS, MODERN
from tests.schemas.offered import Offer
from tests.schemas.steps import (
    ABLE,
    EVENT,
    META,
    RETRY,
    TASK,
    TASKS,
    Message,
    Step,
    calls,
    gets,
    references,
)


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


ODD_TEXTS: Final = (
    "",
    "\x00",
    "é\u2028💥",
    "\ud800",
    "-1",
    "a" * 300,
    "../../etc/passwd",
    "x\r\ny: z",
    " ",
    "True",
    "0",
)
JUNK: Final[Any] = st.one_of(
    st.sampled_from(
        [None, True, False, 0, -1, 1.5, 10**30, 10**400, "", [], {}, [[]], {"": None}, _deep(70), {"a": {"b": [1]}}]
    ),
    st.sampled_from(ODD_TEXTS),
    st.text(max_size=8),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
).map(deepcopy)
IDS: Final = st.one_of(st.integers(-3, 3), st.sampled_from(["", "a", "1", "é", "x" * 256]), st.uuids().map(str))
REASONS: Final = st.fixed_dictionaries({}, optional={"reason": st.sampled_from(["enough", "", "\x00", 7])})


def _params(required: Any, **optional: Any) -> Any:
    return st.fixed_dictionaries(required, optional=optional)


CURSORS: Final = _params({}, cursor=st.sampled_from(["", "1", "x" * 2000, "bm90IG1pbmU"]))


def _answers(offer: Offer) -> Any:
    actions = [{"action": action} for action in ("decline", "cancel", "accept", "go")]
    given = [{"action": "accept", "content": offer.answer}, {"action": "accept", "content": {"n": 30}}, *actions, {}]
    return _params({}, **{offer.question: st.sampled_from(given), "other": JUNK})


def _shared(offer: Offer) -> dict[str, Any]:
    arguments = [*offer.completed, {"name": "nothing", "value": "\x00"}]
    contexts = [{"arguments": {"not": "monday"}}, {}, {"arguments": {"day": 1}}]
    return {
        "tools/list": CURSORS,
        "resources/list": CURSORS,
        "resources/templates/list": CURSORS,
        "prompts/list": CURSORS,
        "tools/call": st.sampled_from(calls(offer)),
        "resources/read": _uri(offer),
        "prompts/get": st.sampled_from(gets(offer)),
        "completion/complete": _params(
            {"ref": st.sampled_from(references(offer)), "argument": st.sampled_from(arguments)},
            context=st.sampled_from(contexts),
        ),
    }


def _uri(offer: Offer) -> Any:
    return _params({"uri": st.sampled_from(offer.uris)})


def _own_of_modern(offer: Offer) -> dict[str, Any]:
    chosen = _params(
        {},
        toolsListChanged=st.booleans(),
        promptsListChanged=st.booleans(),
        resourcesListChanged=st.booleans(),
        resourceSubscriptions=st.lists(st.sampled_from(offer.uris), max_size=3),
        taskIds=st.lists(st.sampled_from([TASK, "nobody's"]), max_size=2),
        later=st.just({}),
    )
    return {
        "server/discover": st.just({}),
        "subscriptions/listen": _params({"notifications": chosen}),
        "tasks/get": st.just({"taskId": TASK}),
        "tasks/cancel": st.just({"taskId": TASK}),
        "tasks/update": st.builds(lambda answers: {"taskId": TASK, "inputResponses": answers}, _answers(offer)),
    }


def _own_of_legacy(offer: Offer) -> dict[str, Any]:
    versions = st.sampled_from([*LEGACY_REVISIONS, MODERN, "1999-01-01"])
    who = {"capabilities": {}, "clientInfo": {"name": "any", "version": "1"}}
    return {
        "initialize": st.builds(lambda version: {"protocolVersion": version, **who}, versions),
        "ping": st.just({}),
        "logging/setLevel": _params({"level": st.sampled_from(["debug", "emergency", "loud"])}),
        "resources/subscribe": _uri(offer),
        "resources/unsubscribe": _uri(offer),
    }


NOBODYS: Final = {
    "tasks/list": st.just({}),
    "tasks/result": st.just({"taskId": TASK}),
    "nothing": st.just({}),
    "": JUNK,
}
NOTIFICATIONS: Final = st.one_of(
    st.builds(
        lambda request_id, reason: {"method": "notifications/cancelled", "params": {"requestId": request_id, **reason}},
        st.one_of(IDS, JUNK),
        REASONS,
    ),
    st.sampled_from(
        [
            {"method": "notifications/initialized"},
            {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
            {"method": "notifications/roots/list_changed"},
            {"method": "notifications/nothing", "params": {"a": 1}},
        ]
    ),
).map(lambda message: {"jsonrpc": "2.0", **message})
REPLIES: Final = st.sampled_from(["accept", "unfit", "malformed", "error", "twice"])
RESPONSES: Final = st.builds(
    lambda request_id, outcome: {"jsonrpc": "2.0", "id": request_id, **outcome},
    IDS,
    st.sampled_from([{"result": {}}, {"error": {"code": -1, "message": "no"}}, {"result": {}, "error": {}}]),
)
BYTES: Final = st.sampled_from(
    [
        *(
            b"",
            b" ",
            b"{",
            b'{"jsonrpc":"2.0"',
            b"null",
            b"[]",
            b"[[]]",
            b'"a"',
            b"NaN",
            b"\xff\xfe",
            b"\xef\xbb\xbf{}",
        ),
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":1e999}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":"\\ud800"}}',
        b"[" * 100_000,
        b'{"a":' * 500,
        b'[{"jsonrpc":"2.0","method":"notifications/initialized"},1]',
    ]
)
MODERN_META: Final = st.fixed_dictionaries(
    {
        META + "protocolVersion": st.just(MODERN),
        META + "clientCapabilities": st.sampled_from(
            [{}, {"elicitation": {}}, {"elicitation": {}, "extensions": TASKS}, {"extensions": TASKS}, ABLE]
        ),
    },
    optional={
        META + "clientInfo": st.sampled_from([{"name": "any", "version": "1"}, {"name": 1}, "me"]),
        META + "logLevel": st.sampled_from(["debug", "error", "loud"]),
        "progressToken": st.sampled_from([0, "", "t", 1.5, None]),
        "traceparent": st.sampled_from(["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x"]),
    },
)
LEGACY_META: Final = st.fixed_dictionaries({}, optional={"progressToken": st.sampled_from([0, "", "t", 1.5, None])})
HEADERS: Final = st.dictionaries(
    st.sampled_from(
        ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Accept", "Content-Type", "Mcp-Session-Id", "Origin"]
    ),
    st.sampled_from(
        [
            *("", "x", MODERN, LATEST_LEGACY, ASSUMED_LEGACY, "1999-01-01", "tools/call", "plain"),
            *("application/json", "text/event-stream", "*/*", "text/plain", "=?base64?cGxhaW4=?=", "=?base64?%?="),
            *("0" * 32, "https://evil.example"),
        ]
    ),
    max_size=2,
)


@st.composite
def _requests(draw: st.DrawFn, methods: dict[str, Any], meta: Any) -> Message:
    method = draw(st.sampled_from(list(methods)))
    params = draw(methods[method])
    message = {"jsonrpc": "2.0", "id": draw(IDS), "method": method, "params": params}
    own_meta = draw(meta)
    if isinstance(params, dict) and (own_meta or draw(st.booleans())):
        message["params"] = {**params, "_meta": own_meta}
    return message


@st.composite
def _spoiled(draw: st.DrawFn, messages: Any) -> Any:
    """A message with one or two errors."""
    message = json.loads(json.dumps(draw(messages)))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(_paths(message)) or [()]))
        holder = message
        for step in path[:-1]:
            holder = holder[step]
        change = draw(st.sampled_from(["replace", "remove", "add"]))
        if not path:
            message = draw(JUNK)
        elif change == "replace":
            holder[path[-1]] = draw(JUNK)
        elif change == "remove":
            del holder[path[-1]]
        elif isinstance(holder, dict):
            holder[draw(st.sampled_from(["extra", "task", "_meta", "cursor", "inputResponses"]))] = draw(JUNK)
        if not isinstance(message, dict | list):
            break
    return message


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in members:
        yield (*path, name)
        if len(path) < 6:
            yield from _paths(each, (*path, name))


def _steps(methods: dict[str, Any], meta: Any, *others: Any) -> Any:
    requests = _requests({**methods, **NOBODYS}, meta)
    messages = st.one_of(requests, requests, _spoiled(requests), NOTIFICATIONS, _spoiled(NOTIFICATIONS), RESPONSES)
    return st.one_of(
        st.builds(Step, requests),
        st.builds(Step, messages),
        st.builds(Step, messages, reads=st.integers(0, 1)),
        st.builds(Step, requests, replies=st.lists(REPLIES, max_size=4).map(tuple)),
        st.builds(Step, messages, HEADERS),
        st.builds(Step, BYTES, HEADERS),
        st.builds(Step, st.lists(messages, max_size=4)),
        *others,
    )


def modern_steps(offer: Offer) -> Any:
    methods = {**_shared(offer), **_own_of_modern(offer)}
    retries = st.builds(lambda answers: {**RETRY, "inputResponses": answers}, _answers(offer))
    methods["tools/call"] = st.one_of(methods["tools/call"], retries)
    bodiless = st.builds(Step, http_method=st.sampled_from(["GET", "DELETE", "PUT", "OPTIONS", "HEAD"]))
    return _steps(methods, MODERN_META, bodiless)


def legacy_steps(offer: Offer) -> Any:
    last = st.fixed_dictionaries({}, optional={"Last-Event-ID": st.sampled_from(["x", "0-1", EVENT])})
    listening = st.builds(Step, headers=last, http_method=st.just("GET"), reads=st.just(0))
    bodiless = st.builds(Step, http_method=st.sampled_from(["DELETE", "HEAD"]))
    return _steps({**_shared(offer), **_own_of_legacy(offer)}, LEGACY_META, listening, bodiless)
