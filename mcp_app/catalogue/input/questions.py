"""The kinds of questions to a client, and the checks of their answers.

A question consists of an InputRequest, the client capability that it needs, and a method that reads
the answer. An answer of the wrong form raises `MalformedAnswer`. One that does not fit the question
raises `UnfitAnswer`. Links that a client should not open are refused.
Source: 2026-07-28 basic/patterns/mrtr, client/elicitation, client/sampling, client/roots.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar, cast, overload
from urllib.parse import urlsplit

import mcp_types
from django.conf import settings as django_settings
from pydantic import BaseModel, ValidationError

from mcp_app.catalogue.errors import InvalidForm, MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.input.forms import requested_schema
from mcp_app.catalogue.schema import dialects
from mcp_app.catalogue.schema.violations import sentence
from mcp_app.protocol import jsonrpc

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
LIST_ROOTS: Final = "roots/list"
MAX_EVALUATIONS: Final = 10_000
MAX_PROBLEM_CHARS: Final = 300
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ERROR: Final = "error"
_AGAIN: Final = "\n\nThe last answer was not valid: "

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A user's answer. Source: 2026-07-28 client/elicitation."""

    action: Literal["accept", "decline", "cancel"]
    """`decline` if the user refused, `cancel` if the user closed the question without a choice."""
    content: T | None = None
    """The filled-in form, or the value of a page of this site. `None` for other pages, and unless
    accepted."""

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


class Question(Protocol[T_co]):
    """A question: one entry of `inputRequests`."""

    @property
    def capability(self) -> Mapping[str, Any]:
        """The client capabilities that the question needs: a ClientCapabilities object."""

    def request(self) -> dict[str, Any]:
        """Return the InputRequest: method and params."""

    def read(self, answer: Any) -> T_co:
        """Return the answer for the author. Raises `MalformedAnswer` and `UnfitAnswer`."""


class Form(Generic[T]):
    """A form for the user, to pass to `ask`.

    - `message` (str): shown to the user.
    - `schema`: a pydantic model, or a JSON Schema of an object. Its fields are text, numbers,
      booleans and choices, without nesting, unions and null.

    Raises `InvalidForm` if the schema cannot be a form. Create forms at the top level of a module
    to find such errors at import. Source: 2026-07-28 client/elicitation "Requested Schema".
    """

    capability: ClassVar[Mapping[str, Any]] = {"elicitation": {"form": {}}}

    @overload
    def __init__(self: "Form[M]", message: str, schema: type[M]) -> None: ...
    @overload
    def __init__(self: "Form[dict[str, Any]]", message: str, schema: Mapping[str, Any]) -> None: ...
    def __init__(self, message: str, schema: Any) -> None:
        self.message = message
        self.schema = requested_schema(schema)
        self._model: type[BaseModel] | None = schema if isinstance(schema, type) else None

    def request(self) -> dict[str, Any]:
        params = {"mode": "form", "message": self.message, "requestedSchema": self.schema}
        return {"method": ELICIT, "params": params}

    def read(self, answer: Any) -> Answer[T]:
        result = check(self.request(), answer)
        if result["action"] != "accept":
            return Answer(result["action"])
        content = result["content"]
        return Answer("accept", cast("T", content if self._model is None else self._filled(self._model, content)))

    @staticmethod
    def _filled(model: type[BaseModel], content: dict[str, Any]) -> BaseModel:
        try:
            return model.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise UnfitAnswer(f"{where}: {first['msg']}"[:MAX_PROBLEM_CHARS]) from None


class Link:
    """A page for the user, for data that must not pass through the client.

    - `message` (str): shown to the user.
    - `url` (str): an `https:` address, or under `DEBUG` also `http:` on a loopback host.

    An accepted answer means that the user agreed to open the page, not that anything was done
    there. The page must verify that its visitor is the caller of the tool. The address must not
    contain anything that identifies a user or grants access.

    Raises `InvalidForm` for another address. Source: 2026-07-28 client/elicitation "Safe URL
    Handling".
    """

    capability: ClassVar[Mapping[str, Any]] = {"elicitation": {"url": {}}}

    def __init__(self, message: str, url: str) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https" and bool(parts.hostname)
        local = parts.scheme == "http" and parts.hostname in _LOOPBACK and django_settings.DEBUG
        if not (secure or local) or parts.username is not None or re.search(r"[\s\x00-\x1f]", url):
            raise InvalidForm(f"{url!r} cannot be sent to a user; it must be an https: URL without a user name.")
        self.message, self.url = message, url

    def request(self) -> dict[str, Any]:
        return {"method": ELICIT, "params": {"mode": "url", "message": self.message, "url": self.url}}

    def read(self, answer: Any) -> Answer[None]:
        return Answer(check(self.request(), answer)["action"])


class Page(Link):
    """A page of this site. The question is accepted when the page was completed.

    `left`: a list with the value that the page stored, or an empty one.
    """

    def __init__(self, message: str, url: str, left: Sequence[Any]) -> None:
        super().__init__(message, url)
        self._left = left

    def read(self, answer: Any) -> Answer[Any]:
        consent = super().read(answer)
        if not consent.accepted:
            return consent
        if not self._left:
            raise UnfitAnswer("the page is not completed yet.")
        return Answer("accept", self._left[0])


class Sampling:
    """A request to the client's model.

    Deprecated by the specification: for clients without an alternative.

    - `messages`: a text of the user, or a list of `mcp_types.SamplingMessage`.
    - `max_tokens` (int): maximum length of the answer.
    - `system_prompt`, `temperature`, `stop_sequences`, `model_preferences`: as the protocol defines
      them. `None`: the client decides.

    No tools are offered and no context is included. Raises `ValueError` for messages with tool uses
    or tool results, because a client may only be sent them together with tools. Source: 2026-07-28
    client/sampling.
    """

    capability: ClassVar[Mapping[str, Any]] = {"sampling": {}}

    def __init__(
        self,
        messages: str | Sequence[mcp_types.SamplingMessage],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: list[str] | None = None,
        model_preferences: mcp_types.ModelPreferences | None = None,
    ) -> None:
        if isinstance(messages, str):
            text = mcp_types.TextContent(type="text", text=messages)
            messages = [mcp_types.SamplingMessage(role="user", content=text)]
        if any(_is_of_tools(message.content_as_list) for message in messages):
            raise ValueError(
                "Sampling offers no tools here, so its messages must not contain tool uses or tool results."
            )
        self._params = mcp_types.CreateMessageRequestParams(
            messages=list(messages),
            max_tokens=max_tokens,
            system_prompt=system_prompt,
            temperature=temperature,
            stop_sequences=stop_sequences,
            model_preferences=model_preferences,
        )

    def request(self) -> dict[str, Any]:
        return {"method": SAMPLE, "params": self._params.model_dump(mode="json", by_alias=True, exclude_none=True)}

    def read(self, answer: Any) -> mcp_types.CreateMessageResultWithTools:
        """Return the answer.

        Its `content` is a block, or a list of several; `content_as_list` is always a list.
        """
        result = check(self.request(), answer)
        content = result["content"]
        if isinstance(content, list) and len(content) == 1:
            result["content"] = content[0]
        return mcp_types.CreateMessageResultWithTools.model_validate(result, by_name=False)


class Roots:
    """A request for the folders that the client lets servers work on.

    Deprecated by the specification. Its answer is a list of `mcp_types.Root`. Source: 2026-07-28
    client/roots.
    """

    capability: ClassVar[Mapping[str, Any]] = {"roots": {}}

    def request(self) -> dict[str, Any]:
        return {"method": LIST_ROOTS, "params": {}}

    def read(self, answer: Any) -> list[mcp_types.Root]:
        return list(mcp_types.ListRootsResult.model_validate(check(self.request(), answer), by_name=False).roots)


_RESULTS: Final[Mapping[str, type[BaseModel]]] = {
    ELICIT: mcp_types.ElicitResult,
    SAMPLE: mcp_types.CreateMessageResultWithTools,
    LIST_ROOTS: mcp_types.ListRootsResult,
}


def check(request: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    """Return the checked answer to an InputRequest, reduced to the members with a meaning.

    Raises `MalformedAnswer` and `UnfitAnswer`.
    """
    parsed = jsonrpc.validate(_RESULTS[request["method"]], answer)
    if parsed is None:
        raise MalformedAnswer(f"it is not a result of {request['method']}")
    if isinstance(parsed, mcp_types.CreateMessageResultWithTools) and _is_of_tools(parsed.content_as_list):
        raise MalformedAnswer("it uses tools, but none were offered")
    if not isinstance(parsed, mcp_types.ElicitResult):
        return dict(answer)
    if parsed.action != "accept" or request["params"].get("mode") == "url":
        return {"action": parsed.action}
    content = answer.get("content") or {}
    if problem := _misfit(request["params"]["requestedSchema"], content):
        raise UnfitAnswer(problem)
    return {"action": "accept", "content": content}


def _is_of_tools(content: Iterable[Any]) -> bool:
    return any(isinstance(block, mcp_types.ToolUseContent | mcp_types.ToolResultContent) for block in content)


def error_answer(words: str) -> dict[str, Any]:
    """Return the value that is stored as the answer if the client answered with an error."""
    return {_ERROR: words[:MAX_PROBLEM_CHARS]}


def error_in(answer: Any) -> str | None:
    """Return the message of an `error_answer`, or `None` for any other answer."""
    return str(answer[_ERROR]) if isinstance(answer, Mapping) and answer.keys() == {_ERROR} else None


def capability(requests: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the capabilities that these InputRequests need: a ClientCapabilities object."""
    needed: dict[str, Any] = {}
    for request in requests:
        if request["method"] == ELICIT:
            needed.setdefault("elicitation", {})[request["params"].get("mode", "form")] = {}
        else:
            needed["sampling" if request["method"] == SAMPLE else "roots"] = {}
    return needed


def again(request: Mapping[str, Any], problem: str) -> dict[str, Any]:
    """Return the question again, with the problem of the user's last answer in its message."""
    params = dict(request["params"])
    params["message"] = params["message"].split(_AGAIN)[0] + _AGAIN + problem
    return {**request, "params": params}


def _misfit(schema: Mapping[str, Any], content: Mapping[str, Any]) -> str | None:
    try:
        json.dumps(content, allow_nan=False)
        with dialects.bounded(MAX_EVALUATIONS):
            error = next(dialects.validator(schema).iter_errors(content), None)
    except (dialects.TooCostlyError, ValueError):
        return "it is too large or contains a number out of range"
    if error is None:
        return None
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {sentence(error)}"[:MAX_PROBLEM_CHARS] if place else sentence(error)[:MAX_PROBLEM_CHARS]
