"""The author's side of asking: `elicit` and its kin, `ask` for several at once, `once` for what must not repeat.

Asking is replay. A question that is not answered yet ends the run; when its answer is there the function runs again
from its start, and is given at once what is known. No worker, lock or connection is held while a person thinks. Refuses
to know where that is kept between two runs. Source: 2026-07-28 basic/patterns/mrtr, client/elicitation,
client/sampling, client/roots.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

import mcp_types
from pydantic import BaseModel

from mcp_app.catalogue import questions
from mcp_app.catalogue.errors import CannotAsk, MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.questions import Answer, Form, Link, Question, Roots, Sampling
from mcp_app.protocol import legacy_questions
from mcp_app.protocol.capabilities import declared
from mcp_app.protocol.revisions import LEGACY

MAX_KEY_CHARS = 128
MAX_KEPT_CHARS = 1_000_000

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")


class InputRequired(BaseException):
    """Raised by a question that is not answered yet: it ends the run. Let it pass, or clean up and raise it."""


@dataclass(frozen=True, slots=True)
class Known:
    """What one run knows of its client."""

    protocol_version: str
    """The revision that it speaks."""
    capabilities: Mapping[str, Any]
    """What it declares that it can be asked: a ClientCapabilities object."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """InputResponses by key; they need not fit."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """What runs before have done once, by key."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a run ended that asks."""

    questions: dict[str, Any]
    """What nobody has answered yet: an InputRequests object."""
    kept: dict[str, Any]
    """What has been done once so far, by key."""


class Asking(ABC):
    """The part of a context that asks, and what one run knows of its client's answers."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._revision = LEGACY.get(known.protocol_version)
        self._kept: dict[str, Any] = dict(known.kept)
        self._seen: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, dict[str, Any]] = {}

    @property
    def has_asked(self) -> bool:
        """Whether the run depends on answers, there or not."""
        return bool(self._seen)

    def ended_by(self, error: BaseException) -> Asked | None:
        """What the run asks that raised `error`; None where it did not end to ask."""
        return Asked(dict(self._asked), dict(self._kept)) if self._asked and _asks(error) else None

    @abstractmethod
    def _check_goes_on(self) -> None:
        """Raise where the run is not to ask or do anything more."""

    @abstractmethod
    def _check_may_end(self) -> None:
        """Raise where a question must not end the run."""

    @abstractmethod
    def _keep(self, key: str, value: Any) -> None:
        """Have the runs that follow know what was done once."""

    @abstractmethod
    async def _akeep(self, key: str, value: Any) -> None:
        """The same, in an event loop."""

    @overload
    def elicit(self, key: str, message: str, schema: type[M]) -> Answer[M]: ...
    @overload
    def elicit(self, key: str, message: str, schema: Mapping[str, Any]) -> Answer[dict[str, Any]]: ...
    def elicit(self, key: str, message: str, schema: Any) -> Answer[Any]:
        """Ask the user to fill in a form; what they did with it, once they have. `key` names the question in this call.

        `schema`: a pydantic model or a JSON Schema, its fields text, numbers, booleans or choices; never for secrets.
        Raises `CannotAsk` where the client declares no form mode, `InvalidForm` where the schema is none.
        """
        return self._ask_one(key, Form(message, schema))

    def elicit_url(self, key: str, message: str, url: str) -> Answer[None]:
        """Send the user to a page; accepted means that they agreed to open it, and no more (see `questions.Link`).

        Raises `CannotAsk` where the client declares no URL mode, `InvalidForm` for an address that is not https.
        """
        return self._ask_one(key, Link(message, url))

    def sample(
        self, key: str, messages: str | Sequence[mcp_types.SamplingMessage], *, max_tokens: int, **options: Any
    ) -> mcp_types.CreateMessageResultWithTools:
        """Ask the client's model; `options`, and the answer, as `questions.Sampling` has them. Deprecated."""
        return self._ask_one(key, Sampling(messages, max_tokens=max_tokens, **options))

    def roots(self, key: str = "roots") -> list[mcp_types.Root]:
        """The folders that the client lets servers work on. Deprecated by the specification."""
        return self._ask_one(key, Roots())

    def ask(self, **asked: Question[Any]) -> dict[str, Any]:
        """Ask several questions in one round, by key; their answers by key, as from the methods for one."""
        self._check_goes_on()
        found = {key: self._find(key, question) for key, question in asked.items()}
        if self._asked.keys().isdisjoint(asked):
            return found
        self._check_may_end()
        raise InputRequired

    def once(self, key: str, function: Callable[[], R]) -> R:
        """Call `function` in the first run only; in those after an answer, return what it returned. JSON values only.

        Kept when it has returned: a run that is stopped meanwhile may have done it all the same.
        """
        self._check_goes_on()
        if key not in self._kept:
            value = _plain(key, function())
            self._keep(key, value)
            self._kept[key] = value
        kept: R = self._kept[key]
        return kept

    async def aonce(self, key: str, function: Callable[[], Awaitable[R]]) -> R:
        """As `once`, for a coroutine function."""
        self._check_goes_on()
        if key not in self._kept:
            value = _plain(key, await function())
            await self._akeep(key, value)
            self._kept[key] = value
        kept: R = self._kept[key]
        return kept

    def _ask_one(self, key: str, question: Question[R]) -> R:
        answer: R = self.ask(**{key: question})[key]
        return answer

    def _find(self, key: str, question: Question[Any]) -> Any:
        """The answer; without one, None, and the question is among what is asked."""
        request = question.request()
        # A task shows a key that is used again with a tilde and the round's number behind it.
        if not 1 <= len(key) <= MAX_KEY_CHARS or "~" in key:
            raise ValueError(f"A question's key has 1 to {MAX_KEY_CHARS} characters, and no tilde.")
        if self._seen.setdefault(key, request) != request:
            raise ValueError(f"The key {key!r} is used for two questions; give each its own.")
        if key in self._known.answers:
            self._check_error(self._known.answers[key])
            try:
                return question.read(self._known.answers[key])
            except UnfitAnswer as problem:
                request = questions.again(request, str(problem))
            except MalformedAnswer:
                logger.debug("what came with the key %r is no answer; it is asked", key)
        self._check_askable(question, request)
        self._asked[key] = request
        return None

    def _check_error(self, answer: Any) -> None:
        # Answers that a modern client sends with its request are unchecked.
        if self._revision is not None and (words := questions.error_in(answer)) is not None:
            raise CannotAsk(words)

    def _check_askable(self, question: Question[Any], request: dict[str, Any]) -> None:
        if self._revision is not None and (why := legacy_questions.obstacle(self._revision, request)) is not None:
            raise CannotAsk(why)
        if not declared(question.capability, self._known.capabilities):
            wanted = " ".join(f"{name} {' '.join(modes)}".strip() for name, modes in question.capability.items())
            how = "" if self._revision is None else " in its session, and takes event streams"
            raise CannotAsk(
                f"This call needs a client that declares the capability {wanted}{how}.", question.capability
            )


def _asks(error: BaseException) -> bool:
    """Whether a question raised it: alone, or with others of a body's tasks that ask."""
    if isinstance(error, BaseExceptionGroup):
        return all(_asks(each) for each in error.exceptions)
    return isinstance(error, InputRequired)


def _plain(key: str, value: Any) -> Any:
    """`value` as it will be read back, so that every run is given the same."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"What is done once as {key!r} must return plain, finite JSON: {error}") from error
    if len(text) > MAX_KEPT_CHARS:
        raise ValueError(f"What is done once as {key!r} may return at most {MAX_KEPT_CHARS} characters of JSON.")
    return json.loads(text)
