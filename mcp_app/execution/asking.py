"""The author's side of asking: `elicit` and its kin, `ask` for several at once, `once` for what must not repeat.

Asking is replay. A question that is not answered yet ends the run; when its answer is there the tool runs again from
its start, and is given at once what is known. No worker, lock or connection is held while a person thinks.
Source: 2026-07-28 basic/patterns/mrtr, client/elicitation, client/sampling, client/roots.
"""

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, overload
from urllib.parse import urlencode

import mcp_types
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse
from pydantic import BaseModel

from mcp_app.catalogue import questions
from mcp_app.catalogue.errors import CannotAsk, MalformedAnswer, UnfitAnswer
from mcp_app.catalogue.questions import Answer, Form, Link, Page, Question, Roots, Sampling
from mcp_app.conf import settings
from mcp_app.execution.interrupt import Interrupter
from mcp_app.execution.recorder import Recorder
from mcp_app.lifecycle import input_rounds, visits
from mcp_app.models import Request
from mcp_app.protocol import legacy_questions
from mcp_app.protocol.capabilities import declared
from mcp_app.protocol.revisions import LEGACY

PAGE_PARAMETER = "visit"
MAX_KEY_CHARS = 128
MAX_KEPT_CHARS = 1_000_000

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R")


class InputRequired(BaseException):
    """Raised in a tool whose question is not answered yet: it ends the run. Let it pass, or clean up and raise it."""


class Asking(ABC):
    """The part of a tool's context that asks, and what one run knows of its client's answers."""

    def __init__(self, row: Request, recorder: Recorder, interrupter: Interrupter) -> None:
        self._row = row
        self._revision = LEGACY.get(row.protocol_version)
        self._recorder = recorder
        self._interrupter = interrupter
        self._kept: dict[str, Any] = dict(row.kept)
        self._seen: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        """What this run has asked and nobody has answered yet: InputRequests."""

    @abstractmethod
    def check(self) -> None:
        """Raise where the call was cancelled: the context's to say."""

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

    def elicit_page(self, key: str, message: str, view_name: str, **arguments: Any) -> Answer[Any]:
        """Send the user to a view of this site decorated with `mcp_app.visits.visit`, to be opened by nobody else.

        `view_name` and its `arguments`: as for Django's `reverse`. Accepted means completed (`Visit.done`), `content`
        is the value that was handed over; asked again until then. For what must not pass through the client.
        Raises `CannotAsk` for a caller who has no account here, or whose client declares no URL mode.
        """
        if not self._row.user_id:
            raise CannotAsk("This call needs a caller with an account on this site, who can be recognised on its page.")
        if settings.PUBLIC_URL is None:
            raise ImproperlyConfigured(
                'MCP["PUBLIC_URL"] is to say where users reach this site, as https://example.com.'
            )
        path = reverse(view_name, kwargs=arguments)
        query = urlencode({PAGE_PARAMETER: visits.address(self._row.pk, key)})
        left = [self._row.visited[key]] if key in self._row.visited else []
        return self._ask_one(key, Page(message, f"{settings.PUBLIC_URL.rstrip('/')}{path}?{query}", left))

    def sample(
        self, key: str, messages: str | Sequence[mcp_types.SamplingMessage], *, max_tokens: int, **options: Any
    ) -> mcp_types.CreateMessageResult:
        """Ask the client's model; `options` as of `questions.Sampling`. Deprecated by the specification."""
        return self._ask_one(key, Sampling(messages, max_tokens=max_tokens, **options))

    def roots(self, key: str = "roots") -> list[mcp_types.Root]:
        """The folders that the client lets servers work on. Deprecated by the specification."""
        return self._ask_one(key, Roots())

    def ask(self, **asked: Question[Any]) -> dict[str, Any]:
        """Ask several questions in one round, by key; their answers by key, as from the methods for one."""
        self.check()
        found = {key: self._find(key, question) for key, question in asked.items()}
        if self.asked.keys().isdisjoint(asked):
            return found
        if self._interrupter.shielded:
            raise RuntimeError("A question ends the run, so it cannot be asked inside shield(); ask before it.")
        raise InputRequired

    def once(self, key: str, function: Callable[[], R]) -> R:
        """Call `function` in the first run only; in those after an answer, return what it returned. JSON values only.

        Kept when it has returned: a call that is stopped meanwhile may have done it all the same.
        """
        self.check()
        if key not in self._kept:
            value = _plain(key, function())
            # An interrupt between the recorder's lock and its release would leave it held for good.
            with self._interrupter.shield():
                self._keep(key, value)
        kept: R = self._kept[key]
        return kept

    async def aonce(self, key: str, function: Callable[[], Awaitable[R]]) -> R:
        """As `once`, for a coroutine function."""
        self.check()
        if key not in self._kept:
            await asyncio.to_thread(self._keep, key, _plain(key, await function()))
        kept: R = self._kept[key]
        return kept

    def _ask_one(self, key: str, question: Question[R]) -> R:
        answer: R = self.ask(**{key: question})[key]
        return answer

    def _find(self, key: str, question: Question[Any]) -> Any:
        """The answer; without one, None, and the question is among what is asked."""
        request = question.request()
        if not 1 <= len(key) <= MAX_KEY_CHARS:
            raise ValueError(f"A question's key has 1 to {MAX_KEY_CHARS} characters.")
        if self._seen.setdefault(key, request) != request:
            raise ValueError(f"The key {key!r} is used for two questions; give each its own.")
        if key in self._row.answers:
            self._check_refusal(self._row.answers[key])
            try:
                return question.read(self._row.answers[key])
            except UnfitAnswer as problem:
                request = questions.again(request, str(problem))
            except MalformedAnswer:
                logger.debug("request %s came with no answer to %r; it is asked", self._row.pk, key)
        self._check_askable(question, request)
        self.asked[key] = request
        return None

    def _check_refusal(self, answer: Any) -> None:
        # Answers that a modern client sends with its call are unchecked.
        if self._revision is not None and (words := questions.refused(answer)) is not None:
            raise CannotAsk(words)

    def _check_askable(self, question: Question[Any], request: dict[str, Any]) -> None:
        if self._revision is not None and (why := legacy_questions.obstacle(self._revision, request)) is not None:
            raise CannotAsk(why)
        if not declared(question.capability, self._row.client_capabilities):
            wanted = " ".join(f"{name} {' '.join(modes)}".strip() for name, modes in question.capability.items())
            how = "" if self._revision is None else " in its session, and takes event streams"
            raise CannotAsk(f"This call needs a client that declares the capability {wanted}{how}.")

    def _keep(self, key: str, value: Any) -> None:
        if not self._recorder.call(partial(input_rounds.keep, self._row.pk, key, value, worker=self._row.worker)):
            raise RuntimeError(f"What was done once as {key!r} cannot be kept: the request is not this run's any more.")
        self._kept[key] = value


def ends_the_run(error: BaseException) -> bool:
    """Whether a body's exception means that it asks: alone, or with others of its tasks that do."""
    if isinstance(error, BaseExceptionGroup):
        return all(ends_the_run(each) for each in error.exceptions)
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
