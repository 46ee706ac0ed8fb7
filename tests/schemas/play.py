"""Clients that play a sequence of steps: the values they remember, and their messages for a wire.

A client is a generator that yields the next message and receives the response. It does no I/O
itself, so the same clients play in this process and against running servers.
"""

import base64
import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, Final

from mcp_app.protocol.headers import NAME_SOURCES
from mcp_app.protocol.revisions import ASSUMED_LEGACY, LEGACY
from tests.schemas.judge import Received, Sent, is_response, judge
from tests.schemas.offered import Offer
from tests.schemas.schemas import MODERN
from tests.schemas.steps import ABLE, ANSWERED, ASKED, EVENT, META, STATE, TASK, TASKS, Step, holds

BOTH: Final = "application/json, text/event-stream"
VISIBLE: Final = re.compile(r"[!-~]([ -~]*[!-~])?")
NOBODYS_TASK: Final = "00000000-0000-4000-8000-000000000000"

ASKS: Final = {
    "2025-03-26": {"sampling/createMessage", "roots/list"},
    "2025-06-18": {"sampling/createMessage", "roots/list", "elicitation/create"},
    "2025-11-25": {"sampling/createMessage", "roots/list", "elicitation/create"},
}
"""The requests that a session's client gets from the tools of `offered.SAMPLES` and the fixture
site."""

Play = Generator[Sent, Received, None]


class Modern:
    """A client of 2026-07-28."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._known = {TASK: NOBODYS_TASK, STATE: "none", ASKED: next(iter(offer.tools)), EVENT: "none"}
        self._tasks: list[str] = []
        self.results: set[tuple[str, str]] = set()
        """The method and the type of every result that the client received."""

    def play(self, steps: Iterable[Step]) -> Play:
        """Send the steps' messages, check the responses, and cancel open tasks at the end."""
        for step in steps:
            yield from self._exchange(step)
        for task_id in self._tasks:
            capabilities = {META + "protocolVersion": MODERN, META + "clientCapabilities": {"extensions": TASKS}}
            params = {"taskId": task_id, "_meta": capabilities}
            body = {"jsonrpc": "2.0", "id": "last", "method": "tasks/cancel", "params": params}
            yield from self._exchange(Step(body))

    def _exchange(self, step: Step) -> Play:
        sent = self._prepare(step)
        received = yield sent
        try:
            judge(sent, received, self._offer)
        except AssertionError as error:
            raise AssertionError(f"{error}\nsent: {sent}\nreceived: {received}") from error
        self._learn(sent, received)

    def _prepare(self, step: Step) -> Sent:
        if isinstance(step.body, bytes):
            value, body = _read(step.body), step.body
        else:
            value = self._filled(step.body)
            if isinstance(value, list):
                value = [each for each in value if not holds(each, self._offer)]
            body = b"" if value is None and step.http_method != "POST" else json.dumps(value).encode()
        headers = {"Content-Type": "application/json", "Accept": BOTH, **self._headers(value), **step.headers}
        headers = {name: self._filled(text) for name, text in headers.items() if text}
        reads = step.reads
        if holds(value, self._offer):
            reads = (1 if value["method"] == "subscriptions/listen" else 0) if reads is None else reads
        revision = self._revision(value, headers)
        return Sent(body, value, headers, step.http_method, reads, revision, self._replying(step.replies))

    def _replying(self, replies: Iterable[str]) -> Callable[[Mapping[str, Any]], list[Sent]] | None:
        """Return no replies: clients of this revision get no requests from the server."""
        return None

    def _headers(self, value: Any) -> dict[str, str]:
        headers = {"MCP-Protocol-Version": MODERN}
        if isinstance(value, dict) and isinstance(method := value.get("method"), str):
            headers["Mcp-Method"] = _field(method)
            params = value.get("params")
            if isinstance(params, dict) and isinstance(name := params.get(NAME_SOURCES.get(method, "")), str):
                headers["Mcp-Name"] = _field(name)
            arguments = params.get("arguments") if isinstance(params, dict) else None
            if isinstance(arguments, dict) and isinstance(region := arguments.get("region"), str):
                headers["Mcp-Param-Region"] = _field(region)
        return headers

    def _revision(self, value: Any, headers: dict[str, str]) -> str:
        version = headers.get("MCP-Protocol-Version")
        params = value.get("params") if isinstance(value, dict) else None
        meta = params.get("_meta") if isinstance(params, dict) else None
        if isinstance(meta, dict) and META + "protocolVersion" in meta:
            return MODERN
        return (version or ASSUMED_LEGACY) if version is None or version in LEGACY else MODERN

    def _learn(self, sent: Sent, received: Received) -> None:
        for message in received.messages:
            result = message.get("result", {})
            if "result" in message and isinstance(sent.value, dict):
                self.results.add((sent.value["method"], result.get("resultType", "")))
            if result.get("resultType") == "task":
                self._known[TASK] = result["taskId"]
                self._tasks.append(result["taskId"])
            if result.get("resultType") == "input_required":
                self._known |= {STATE: result["requestState"], ASKED: sent.value["params"]["name"]}

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._known.get(value, value)
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        return {name: self._filled(each) for name, each in value.items()} if isinstance(value, dict) else value


class Line(Modern):
    """A `Modern` client on a wire without headers."""

    def _prepare(self, step: Step) -> Sent:
        return replace(_as_line(super()._prepare(_on_a_line(step))), revision=MODERN)


class Legacy(Modern):
    """A client of an earlier revision, with a session if it opens one."""

    def __init__(self, offer: Offer, version: str, *, in_session: bool = True) -> None:
        super().__init__(offer)
        self._version = version
        self._in_session = in_session
        self._negotiated = version
        self._session = ""
        self._sessions: list[str] = []
        self.asked: set[str] = set()
        """The methods of requests from the server."""

    def play(self, steps: Iterable[Step]) -> Play:
        if self._in_session:
            who = {"capabilities": ABLE, "clientInfo": {"name": "any", "version": "1"}}
            params = {"protocolVersion": self._version, **who}
            yield from self._exchange(Step({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
        for step in steps:
            yield from self._exchange(step)
        for session in self._sessions:
            yield from self._exchange(Step(headers={"Mcp-Session-Id": session}, http_method="DELETE"))

    def _headers(self, value: Any) -> dict[str, str]:
        return {"MCP-Protocol-Version": self._version, "Mcp-Session-Id": self._session}

    def _replying(self, replies: Iterable[str]) -> Callable[[Mapping[str, Any]], list[Sent]]:
        kinds = chain(replies, repeat("decline"))
        return lambda asked: self._reply(asked, next(kinds))

    def _reply(self, asked: Mapping[str, Any], kind: str) -> list[Sent]:
        self.asked.add(asked["method"])
        result: Any = ANSWERED[asked["method"]]
        if asked["method"] == "elicitation/create":
            other = {"decline": {"action": "decline"}, "unfit": {"action": "accept", "content": {}}}
            result = other.get(kind, {"action": "accept", "content": dict(self._offer.answer)})
        outcome = {"result": {"malformed": True} if kind == "malformed" else result}
        if kind == "error" or (kind == "decline" and asked["method"] in ("sampling/createMessage", "roots/list")):
            outcome = {"error": {"code": -1, "message": "The user rejected it."}}
        message = {"jsonrpc": "2.0", "id": asked["id"], **outcome}
        sent = self._prepare(Step(message))
        return [sent] * (2 if kind == "twice" else 1)

    def _revision(self, value: Any, headers: dict[str, str]) -> str:
        found = super()._revision(value, headers)
        in_session = self._session and headers.get("Mcp-Session-Id") == self._session
        return self._negotiated if found != MODERN and in_session else found

    def _learn(self, sent: Sent, received: Received) -> None:
        super()._learn(sent, received)
        session = received.headers.get("mcp-session-id")
        if session is not None:
            self._sessions.append(session)
            if self._in_session:
                self._session = session
                self._negotiated = received.messages[0]["result"]["protocolVersion"]
        if "last-event-id" in received.headers:
            self._known[EVENT] = received.headers["last-event-id"]


class LegacyLine(Legacy):
    """A `Legacy` client on a wire that is itself the session."""

    def _prepare(self, step: Step) -> Sent:
        return _as_line(super()._prepare(_on_a_line(step)))

    def _revision(self, value: Any, headers: dict[str, str]) -> str:
        return self._negotiated

    def _learn(self, sent: Sent, received: Received) -> None:
        super()._learn(sent, received)
        for message in received.messages:
            self._negotiated = message.get("result", {}).get("protocolVersion", self._negotiated)


def _on_a_line(step: Step) -> Step:
    """Return the step for a wire without HTTP methods.

    Cancellations are removed from batches, because they could leave another message of the batch
    without a response.
    """
    if step.http_method != "POST":
        return Step(b"")
    if not isinstance(step.body, list):
        return step
    kept = [each for each in step.body if not isinstance(each, dict) or "cancelled" not in str(each.get("method"))]
    return replace(step, body=kept)


def _as_line(sent: Sent) -> Sent:
    return replace(sent, body=sent.body.replace(b"\n", b" "), headers={})


def unanswered(sent: Sent) -> list[Any]:
    """Return the ids of a line's messages that get a response."""
    if isinstance(sent.value, list) and sent.revision != "2025-03-26":
        return []
    return [message["id"] for message in sent.requests if sent.revision == MODERN or not is_response(message)]


def _field(text: str) -> str:
    """Encode a value for a header field (streamable-http "Value Encoding")."""
    if VISIBLE.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
