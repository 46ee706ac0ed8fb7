"""Checks that a response belongs to its request: by its revision's schema, and by further rules."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jsonschema.exceptions import best_match

from tests.schemas import schemas
from tests.schemas.offered import Offer
from tests.schemas.schemas import ID_IN_EVERY_ERROR, MODERN
from tests.schemas.steps import META

BEFORE_THE_BODY: Final = (401, 403, 405, 408, 413, 415)
MODERN_STATUS: Final[Mapping[int, tuple[int, ...]]] = {
    -32700: (400,),
    -32600: (400,),
    -32601: (404,),
    -32602: (200, 400),
    -32603: (200,),
    -32020: (400,),
    -32021: (400,),
    -32022: (400,),
}
LEGACY_STATUS: Final[Mapping[int, tuple[int, ...]]] = {
    -32700: (400,),
    -32600: (200, 400),
    -32601: (200,),
    -32602: (200, 400),
    -32603: (200,),
    -32002: (200,),
}
FORBIDDEN: Final = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class Sent:
    """A message that a client sent."""

    body: bytes
    value: Any = None
    """The body as JSON, or `None` if it is not JSON."""
    headers: dict[str, str] = field(default_factory=dict)
    http_method: str = "POST"
    reads: int | None = None
    revision: str = MODERN
    """The revision of the response."""
    reply: Callable[[Mapping[str, Any]], "list[Sent]"] | None = None
    """Returns the client's messages in reply to a request from the server."""

    @property
    def messages(self) -> list[Any]:
        return self.value if isinstance(self.value, list) else [self.value]

    @property
    def requests(self) -> Iterator[Mapping[str, Any]]:
        """The messages with an id, which require a response."""
        return (each for each in self.messages if isinstance(each, dict) and is_id(each.get("id")))


@dataclass
class Received:
    """The messages that the client received and read."""

    status: int | None = None
    """`None` on wires without HTTP."""
    headers: dict[str, str] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)
    is_stream: bool = False
    complete: bool = True


def is_id(value: object) -> bool:
    if type(value) is str:
        return len(value) <= 256 and not FORBIDDEN.search(value)
    return type(value) is int and abs(value) < 10**256


def judge(sent: Sent, received: Received, offer: Offer) -> None:
    """Raise `AssertionError` with the reason if the response is not allowed."""
    for message in received.messages:
        if "method" in message:
            _check_own(message, sent)
        else:
            _check_response(message, sent, offer)
    if received.status is not None:
        _check_status(sent, received)
    if received.complete and received.status != 202 and sent.http_method == "POST":
        _check_answered(sent, received)


def _check_own(message: Mapping[str, Any], sent: Sent) -> None:
    """Check a notification, or a request from the server."""
    of = schemas.request if "id" in message else schemas.notification
    names = of(message["method"], sent.revision)
    assert names, f"{sent.revision} has no such message: {message}"
    _check(message, names, sent.revision)
    metas = [meta for request in sent.requests if isinstance(meta := _meta(request), dict)]
    if message["method"] == "notifications/progress":
        tokens = [meta["progressToken"] for meta in metas if "progressToken" in meta]
        assert any(_same(message["params"]["progressToken"], token) for token in tokens), message
    if message["method"] == "notifications/message" and sent.revision == MODERN:
        assert any(META + "logLevel" in meta for meta in metas), message


def _check_response(message: Mapping[str, Any], sent: Sent, offer: Offer) -> None:
    assert message["jsonrpc"] == "2.0"
    assert message.keys() - {"id"} in ({"jsonrpc", "result"}, {"jsonrpc", "error"}), message
    asked = [request for request in sent.requests if _same(request["id"], message.get("id"))]
    if "error" in message:
        assert asked or "id" not in message, message
        _check_error(message, sent, asked, offer)
        return
    revision = sent.revision
    if revision != MODERN and [request.get("method") for request in asked] == ["initialize"]:
        # The result of `initialize` already belongs to the revision that it names.
        revision = message["result"]["protocolVersion"]
    names = [name for request in asked for name in schemas.results(str(request.get("method")), revision)]
    assert names, f"{revision} has no result for this: {message}"
    _check(message["result"], names, revision)


def _check_error(message: Mapping[str, Any], sent: Sent, asked: list[Mapping[str, Any]], offer: Offer) -> None:
    _check(message["error"], ["Error"], sent.revision)
    code = message["error"]["code"]
    assert not -32099 <= code <= -32000 or code in ((-32002,) if sent.revision != MODERN else (-32020, -32021, -32022))
    if code == -32603:
        named = {request["params"].get(key) for request in asked for key in ("name", "uri")}
        assert named & offer.fails, f"an internal error for {asked}"


def _check_status(sent: Sent, received: Received) -> None:
    status = received.status
    assert status is not None
    assert status < 500 or status == 503
    if received.is_stream or any("result" in message for message in received.messages):
        assert status == 200
    elif status == 202:
        assert not received.messages
        assert sent.revision != MODERN or (isinstance(sent.value, dict) and "id" not in sent.value)
        assert all(map(is_response, sent.requests))
    elif not isinstance(sent.value, list):
        table = MODERN_STATUS if sent.revision == MODERN else LEGACY_STATUS
        for message in received.messages:
            code = message["error"]["code"]
            assert status in table.get(code, (code,)), (status, message)


def _check_answered(sent: Sent, received: Received) -> None:
    """Check that every request has one response, and that it is the last message of its stream."""
    responses = [message for message in received.messages if "method" not in message]
    assert all("error" in message for message in responses if "id" not in message)
    if isinstance(sent.value, list):
        if received.status == 200:
            for request in sent.requests:
                answers = [_same(request["id"], message.get("id")) for message in responses]
                assert any(answers) or is_response(request), request
        return
    if received.status in (200, None) or responses:
        expected = [request for request in sent.requests if sent.revision == MODERN or not is_response(request)]
        assert len(responses) == bool(responses or expected), responses
    if responses and received.messages:
        assert received.messages[-1] is responses[-1]
        refused = responses[0].get("error", {}).get("code")
        if "id" not in responses[0]:
            known = [request for request in sent.requests if not is_response(request)]
            assert not known or refused == -32700 or received.status in BEFORE_THE_BODY, (known, responses)
            # In these revisions, an error without an id may only be the body of a rejection (transports).
            assert sent.revision not in ID_IN_EVERY_ERROR or not received.is_stream


def _check(value: Any, names: list[str], revision: str) -> None:
    error = best_match(schemas.validator(tuple(names), revision).iter_errors(value))
    assert error is None, f"{revision} {names}: {error.json_path}: {error.message[:500]}\n{str(value)[:1000]}"


def _meta(message: Mapping[str, Any]) -> Any:
    params = message.get("params")
    return params.get("_meta") if isinstance(params, dict) else None


def is_response(message: Mapping[str, Any]) -> bool:
    return "method" not in message and ("result" in message or "error" in message)


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other
