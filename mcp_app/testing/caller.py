"""Base class of the test clients: it builds requests and reads results, and leaves the transport to its subclasses.

Every request is a message of revision 2026-07-28.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final
from uuid import UUID

import mcp_types
from django.contrib.auth.models import AbstractBaseUser
from django.core.serializers.json import DjangoJSONEncoder

from mcp_app.catalogue.prompts import registered_prompts
from mcp_app.conf import DEFAULT_ENDPOINT, settings
from mcp_app.models import Request
from mcp_app.protocol import metadata
from mcp_app.protocol.headers import METHOD_HEADER, NAME_HEADER, NAME_SOURCES, PROTOCOL_VERSION_HEADER
from mcp_app.protocol.revisions import MODERN
from mcp_app.testing.answers import Action, Answers, Content
from mcp_app.testing.outcomes import CallResult, MCPError, Told

CLIENT_NAME: Final = "mcp_client"
EVERYTHING: Final[Mapping[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
"""The capabilities of a client, as a ClientCapabilities object."""

Condition = Callable[[Told], object]


class Call:
    """One request of a test, with all its rounds of questions."""

    def __init__(self, cancel_when: Condition | None = None, cancel_after: float | None = None) -> None:
        self._cancel_when = cancel_when
        self.cancel_after = cancel_after
        self.told = Told()
        """The messages that the client received."""
        self.asked: dict[str, dict[str, Any]] = {}
        self.request_id: UUID | None = None
        """The id of its row, once it is stored."""

    def should_cancel_now(self, heard: Told) -> bool:
        """Return whether its progress or log now asks for cancellation, for the first time."""
        if self._cancel_when is None or not self._cancel_when(heard):
            return False
        self._cancel_when = None
        return True

    def row(self) -> Request:
        """Return the row of the request, or an unsaved one if the call was rejected before it was stored."""
        return Request() if self.request_id is None else Request.objects.get(pk=self.request_id)


class Caller(ABC):
    """Calls tools, reads resources, gets prompts, and answers questions."""

    def __init__(self) -> None:
        self.capabilities: dict[str, Any] = dict(EVERYTHING)
        """The capabilities that it declares, as a ClientCapabilities object. At first these are
        elicitation, sampling and roots."""
        self.endpoint = DEFAULT_ENDPOINT if DEFAULT_ENDPOINT in settings.endpoints else next(iter(settings.endpoints))
        """The name of the endpoint: "default" if the site has one of that name, otherwise its first."""
        self._answers = Answers()
        self._ids = count(1)

    @abstractmethod
    def force_login(self, user: AbstractBaseUser, scopes: Iterable[str] | None = None) -> None:
        """Act for a user of the site, with a token for these scopes, or for every scope if `None`."""

    @abstractmethod
    def logout(self) -> None:
        """Act for no user of the site."""

    @abstractmethod
    def _send(self, message: Mapping[str, Any], headers: Mapping[str, str], call: Call) -> Mapping[str, Any]:
        """Return the response to a request, a JSON-RPC message. Notifications that precede it are added to the call."""

    def answer(self, question: str, content: Content = None, *, action: Action = "accept") -> None:
        """Prepare an answer for a question, which is found by its key or its message. Each answer is used once.

        - `content`: the fields of a form, `None` for a page, or the whole result for `ctx.sample`
          and `ctx.roots`. It may also be a function that takes the question's params and returns
          the content.
        - `action`: `accept`, `decline` or `cancel`.

        Source: 2026-07-28 basic/patterns/mrtr.
        """
        self._answers.prepare(question, content, action)

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        cancel_when: Condition | None = None,
        cancel_after: float | None = None,
        **more: Any,
    ) -> CallResult:
        """Call a tool, answer its questions, and return its result. `arguments` and `more` are merged.

        - `cancel_when`: called with the notifications so far (`Told`) after each progress report
          and log line. If it returns true, the call is cancelled.
        - `cancel_after` (float): seconds from the start of the tool after which the call is
          cancelled.

        Raises `MCPError` if the response is an error, such as for an unknown tool. Raises
        `UnansweredError` if the tool asks a question without a prepared answer, and unexpected
        exceptions of the tool (see `Client.raise_request_exception`). Arguments that do not fit
        give an `is_error` result. Source: 2026-07-28 server/tools.
        """
        call = Call(cancel_when, cancel_after)
        result = self._ask("tools/call", {"name": tool, "arguments": {**(arguments or {}), **more}}, call)
        return self._conclude(
            CallResult(mcp_types.CallToolResult.model_validate(result), call.told, call.asked, call.row())
        )

    def tools(self) -> list[mcp_types.Tool]:
        """Return the tools that the site offers to the caller."""
        return [mcp_types.Tool.model_validate(each) for each in self._list("tools")]

    def resources(self) -> list[mcp_types.Resource]:
        """Return the resources that the site lists for the caller, without templates."""
        return [mcp_types.Resource.model_validate(each) for each in self._list("resources")]

    def prompts(self) -> list[mcp_types.Prompt]:
        """Return the prompts that the site offers to the caller."""
        return [mcp_types.Prompt.model_validate(each) for each in self._list("prompts")]

    def read(self, uri: str) -> mcp_types.ReadResourceResult:
        """Read a resource, and answer its questions.

        Raises `MCPError` and `UnansweredError` as `call` does.
        """
        return mcp_types.ReadResourceResult.model_validate(self._ask("resources/read", {"uri": uri}))

    def prompt(self, name: str, /, **arguments: str) -> mcp_types.GetPromptResult:
        """Get a prompt with these arguments, and answer its questions.

        Raises `MCPError` and `UnansweredError` as `call` does.
        """
        result = self._ask("prompts/get", {"name": name, "arguments": arguments})
        return mcp_types.GetPromptResult.model_validate(result)

    def complete(self, ref: str, argument: str, value: str = "", /, **others: str) -> list[str]:
        """Return completions of an argument's value, at most 100.

        - `ref` (str): the name of a prompt, or a URI template.
        - `value` (str): what the user has typed.
        - `others`: the other arguments that are known already.

        Raises `MCPError` if there is no such prompt, template or argument. Source: 2026-07-28
        server/utilities/completion.
        """
        of_prompt = ref in registered_prompts()
        named = {"type": "ref/prompt", "name": ref} if of_prompt else {"type": "ref/resource", "uri": ref}
        params = {"ref": named, "argument": {"name": argument, "value": value}, "context": {"arguments": others}}
        return list(self._ask("completion/complete", params)["completion"]["values"])

    def _list(self, member: str) -> Iterable[dict[str, Any]]:
        params: dict[str, Any] = {}
        while True:
            page = self._ask(f"{member}/list", params)
            yield from page[member]
            if "nextCursor" not in page:
                return
            params = {"cursor": page["nextCursor"]}

    def _ask(self, method: str, params: Mapping[str, Any], call: Call | None = None) -> dict[str, Any]:
        """Return the result of a request, after as many rounds of questions as it takes."""
        call = call or Call()
        answers: dict[str, Any] = {}
        while True:
            result = self._exchange(method, {**params, **answers}, call)
            if result.get("resultType") != "input_required":
                return result
            questions = result.get("inputRequests", {})
            call.asked.update(questions)
            answers = {"inputResponses": self._answers.respond(questions), "requestState": result["requestState"]}

    def _exchange(self, method: str, params: Mapping[str, Any], call: Call) -> dict[str, Any]:
        meta = {
            metadata.PROTOCOL_VERSION: MODERN,
            metadata.CLIENT_CAPABILITIES: self.capabilities,
            metadata.CLIENT_INFO: {"name": CLIENT_NAME, "version": "1"},
            metadata.LOG_LEVEL: "debug",
            metadata.PROGRESS_TOKEN: CLIENT_NAME,
        }
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": {**params, "_meta": meta}}
        headers = {PROTOCOL_VERSION_HEADER: MODERN, METHOD_HEADER: method}
        if (source := NAME_SOURCES.get(method)) is not None:
            headers[NAME_HEADER] = params[source]
        plain = json.loads(json.dumps(message, cls=DjangoJSONEncoder))
        answered = self._send(plain, headers, call)
        if (error := answered.get("error")) is not None:
            raise MCPError(error["code"], error["message"], error.get("data"))
        result: dict[str, Any] = answered["result"]
        return result

    def _conclude(self, outcome: CallResult) -> CallResult:
        """Finish a call that has ended."""
        return outcome
