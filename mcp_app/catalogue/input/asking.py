"""The methods by which authors ask the client: `elicit` and the like, `ask`, `once`.

Theory of operation
-------------------

No worker, lock or connection waits while a person thinks. Instead, the function is replayed:

    run 1   elicit("size") ── no answer ──► InputRequired ends the run; the question is sent
    run 2   elicit("size") ── answer known ──► returns it; the function continues

1. A question is identified by its key. If `Known.answers` has a valid answer for the key, the
   method returns it. Otherwise the question is recorded and `InputRequired` is raised.
2. `InputRequired` ends the run. `Asking.ended_by` turns it into an `InputNeeded` for the caller of
   the function, who sends the questions and starts the next run with the answers.
3. An answer that does not fit its form is asked again, with the problem in the message. A malformed
   answer is ignored, so its question is asked again.
4. Code before a question runs once in each run. `once` stores the result of a function that must
   not run twice, and returns the stored result in later runs.
5. The `AskingRun` stores these results between runs. A tool's run stores them in the database. For
   a prompt or a resource, the client carries them.

Source: 2026-07-28 basic/patterns/mrtr, client/elicitation, client/sampling, client/roots.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, overload

import mcp_types
from pydantic import BaseModel

from mcp_app.catalogue.errors import CannotAsk, MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.input import questions
from mcp_app.catalogue.input.questions import Answer, Form, Link, Question, Roots, Sampling
from mcp_app.protocol.legacy import questions as legacy_questions
from mcp_app.protocol.metadata import has_capabilities
from mcp_app.protocol.revisions import LEGACY

MAX_KEY_CHARS = 128
MAX_KEPT_CHARS = 1_000_000

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")


class InputRequired(BaseException):
    """Raised by a question that has no answer yet, to end the run.

    Do not suppress it: clean up and re-raise it. It is a `BaseException`, so that `except
    Exception` does not suppress it. Source: 2026-07-28 basic/patterns/mrtr.
    """


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about the client at the start of a run."""

    protocol_version: str
    """The revision of the protocol that the client uses."""
    capabilities: Mapping[str, Any]
    """The capabilities that the client declares: a ClientCapabilities object."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """InputResponses by key. They may be malformed."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """Results of `once` in earlier runs, by key."""


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """The outcome of a run that ended with questions."""

    questions: dict[str, Any]
    """The questions without an answer: an InputRequests object."""
    kept: dict[str, Any]
    """Results of `once` so far, by key."""


class AskingRun(Protocol):
    """The run of a function that asks: of a tool, or of a prompt or a resource."""

    def check_goes_on(self) -> None:
        """Raise if the run must stop or must not ask."""

    def check_may_end(self) -> None:
        """Raise if a question must not end the run."""

    def check_has_client(self) -> None:
        """Raise `CannotAsk` if the run has no client."""

    def keep(self, key: str, value: Any) -> None:
        """Store the result of `once` for later runs."""

    async def akeep(self, key: str, value: Any) -> None:
        """Do the same as `keep`, in an event loop."""


class Asking:
    """The methods for authors, and the state of one run.

    Base class of a tool's context and of `ReadContext`.
    `known` is what the client sent before. `run` is the run that asks.
    """

    def __init__(self, known: Known, run: AskingRun) -> None:
        self._known = known
        self._asking_run = run
        self._revision = LEGACY.get(known.protocol_version)
        self._kept: dict[str, Any] = dict(known.kept)
        self._seen: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, dict[str, Any]] = {}

    @property
    def has_asked(self) -> bool:
        """Whether the run asked a question, answered or not."""
        return bool(self._seen)

    def ended_by(self, error: BaseException) -> InputNeeded | None:
        """Return the questions of a run that raised `error`, if they ended it."""
        return InputNeeded(dict(self._asked), dict(self._kept)) if self._asked and _asks(error) else None

    @overload
    def elicit(self, key: str, message: str, schema: type[M]) -> Answer[M]: ...
    @overload
    def elicit(self, key: str, message: str, schema: Mapping[str, Any]) -> Answer[dict[str, Any]]: ...
    def elicit(self, key: str, message: str, schema: Any) -> Answer[Any]:
        """Ask the user to fill in a form, and return the answer.

        Example::

            class Order(BaseModel):
                size: Literal["S", "M", "L"]

            answer = ctx.elicit("order", "Which size?", Order)
            if answer.accepted:
                ship(answer.content.size)

        - `key` (str): identifies the question within this call, with 1 to 128 characters and no
          tilde.
        - `message` (str): shown to the user.
        - `schema`: a pydantic model or a JSON Schema whose fields are text, numbers, booleans or
          choices. Never ask for secrets in a form. The `content` of an accepted answer is an
          instance of the model, or a dictionary.

        The first time, the question ends the run with `InputRequired`. The function runs again with
        the answer.

        Raises `CannotAsk` if the client does not declare the form mode or there is no client,
        `InvalidForm` if the schema cannot be a form, and `ValueError` if the key is not valid or
        belongs to another question. Source: 2026-07-28 client/elicitation.
        """
        return self._ask_one(key, Form(message, schema))

    def elicit_url(self, key: str, message: str, url: str) -> Answer[None]:
        """Send the user to a page at `url`, and return the answer. See `Link` for its address.

        An accepted answer only means that the user agreed to open the page. Raises `CannotAsk` if
        the client does not declare the URL mode, `InvalidForm` if the address cannot be sent, and
        otherwise as `elicit`. Source: 2026-07-28 client/elicitation.
        """
        return self._ask_one(key, Link(message, url))

    def sample(
        self, key: str, messages: str | Sequence[mcp_types.SamplingMessage], *, max_tokens: int, **options: Any
    ) -> mcp_types.CreateMessageResultWithTools:
        """Ask the client's model. Deprecated by the specification.

        `Sampling` describes `messages`, `max_tokens`, the other options and the answer. Raises
        `CannotAsk` if the client does not declare sampling, and otherwise as `elicit`. Source:
        2026-07-28 client/sampling.
        """
        return self._ask_one(key, Sampling(messages, max_tokens=max_tokens, **options))

    def roots(self, key: str = "roots") -> list[mcp_types.Root]:
        """Return the folders that the client lets servers work on.

        Deprecated by the specification. Raises `CannotAsk` if the client does not declare roots,
        and otherwise as `elicit`. Source: 2026-07-28 client/roots.
        """
        return self._ask_one(key, Roots())

    def ask(self, **asked: Question[Any]) -> dict[str, Any]:
        """Ask several questions in one round, each under its keyword. Return the answers by key.

        Example::

            answers = ctx.ask(order=Form("Which size?", Order), folders=Roots())
            answers["order"].accepted

        A question is a `Form`, a `Link`, a `Sampling` or a `Roots`. Raises as `elicit` does, and
        `RuntimeError` inside `shield()` if a question has no answer yet. Source: 2026-07-28
        basic/patterns/mrtr.
        """
        self._asking_run.check_goes_on()
        found = {key: self._find(key, question) for key, question in asked.items()}
        if self._asked.keys().isdisjoint(asked):
            return found
        self._asking_run.check_may_end()
        raise InputRequired

    def once(self, key: str, function: Callable[[], R]) -> R:
        """Call `function` in one run only, and return its result in that and all later runs.

        Example::

            number = ctx.once("number", reserve_number)

        `key` (str) identifies the result within this call. The result must be JSON, of at most
        1,000,000 characters. It is stored when the function has returned, so a run that is stopped
        before that may have had the effect without a stored result.

        Raises `TypeError` if the result is not JSON, and `ValueError` if it is too long.
        """
        self._asking_run.check_goes_on()
        if key not in self._kept:
            value = _plain(key, function())
            self._asking_run.keep(key, value)
            self._kept[key] = value
        kept: R = self._kept[key]
        return kept

    async def aonce(self, key: str, function: Callable[[], Awaitable[R]]) -> R:
        """Await a coroutine function in one run only. Otherwise as `once`."""
        self._asking_run.check_goes_on()
        if key not in self._kept:
            value = _plain(key, await function())
            await self._asking_run.akeep(key, value)
            self._kept[key] = value
        kept: R = self._kept[key]
        return kept

    def _ask_one(self, key: str, question: Question[R]) -> R:
        answer: R = self.ask(**{key: question})[key]
        return answer

    def _find(self, key: str, question: Question[Any]) -> Any:
        """Return the answer, or record the question and return `None`."""
        request = question.request()
        # In a task, a reused key is shown with a tilde and the number of the round appended.
        if not 1 <= len(key) <= MAX_KEY_CHARS or "~" in key:
            raise ValueError(f"The key of a question must have 1 to {MAX_KEY_CHARS} characters and no tilde.")
        if self._seen.setdefault(key, request) != request:
            raise ValueError(f"The key {key!r} is used for two questions; give each its own.")
        if key in self._known.answers:
            self._check_error(self._known.answers[key])
            try:
                return question.read(self._known.answers[key])
            except UnfitAnswer as problem:
                request = questions.again(request, str(problem))
            except MalformedAnswer:
                logger.debug("the answer with the key %r is malformed; the question is asked again", key)
        self._check_askable(question, request)
        self._asked[key] = request
        return None

    def _check_error(self, answer: Any) -> None:
        # Answers that a modern client sends with its request have not been checked yet.
        if self._revision is not None and (words := questions.error_in(answer)) is not None:
            raise CannotAsk(words)

    def _check_askable(self, question: Question[Any], request: dict[str, Any]) -> None:
        self._asking_run.check_has_client()
        if self._revision is not None and (why := legacy_questions.find_obstacle(self._revision, request)) is not None:
            raise CannotAsk(why)
        if not has_capabilities(question.capability, self._known.capabilities):
            wanted = " ".join(f"{name} {' '.join(modes)}".strip() for name, modes in question.capability.items())
            how = "" if self._revision is None else " in its session and accepts event streams"
            raise CannotAsk(
                f"This call needs a client that declares the capability {wanted}{how}.", question.capability
            )


def _asks(error: BaseException) -> bool:
    """Return whether `error` is an `InputRequired`, or a group of nothing else (tasks that ask)."""
    if isinstance(error, BaseExceptionGroup):
        return all(_asks(each) for each in error.exceptions)
    return isinstance(error, InputRequired)


def _plain(key: str, value: Any) -> Any:
    """Return `value` as it will be read from storage, so that every run gets the same value."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"The function of once({key!r}) must return plain, finite JSON: {error}") from error
    if len(text) > MAX_KEPT_CHARS:
        raise ValueError(f"The function of once({key!r}) may return at most {MAX_KEPT_CHARS} characters of JSON.")
    return json.loads(text)
