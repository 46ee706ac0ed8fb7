"""Asking in a tool: what is known between two runs is in the request's row, and a page of the site may complete it.

The author's methods are those of `catalogue.asking`. Source: 2026-07-28 client/elicitation "URL Mode
Elicitation Requests".
"""

import asyncio
from abc import abstractmethod
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse

from mcp_app.catalogue.asking import Asking, Known
from mcp_app.catalogue.errors import CannotAsk
from mcp_app.catalogue.questions import Answer, Page, Question
from mcp_app.conf import settings
from mcp_app.execution.interrupt import Interrupter
from mcp_app.execution.recorder import Recorder
from mcp_app.lifecycle import input_rounds, visits
from mcp_app.lifecycle.redaction import Kind, redact_each
from mcp_app.models import Request

PAGE_PARAMETER = "visit"
NOBODY_TO_ASK = "A call that a tool starts has no client: ask in the tool that starts it, and hand over the answer."


class AskingTool(Asking):
    """The part of a tool's context that asks."""

    def __init__(self, row: Request, recorder: Recorder, interrupter: Interrupter) -> None:
        super().__init__(
            Known(row.protocol_version, row.client_capabilities, row.original("answers"), row.original("kept"))
        )
        self._row = row
        self._recorder = recorder
        self._interrupter = interrupter

    @abstractmethod
    def check(self) -> None:
        """Raise where the call was cancelled: the context's to say."""

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
        visited = self._row.original("visited")
        left = [visited[key]] if key in visited else []
        return self._ask_one(key, Page(message, f"{settings.PUBLIC_URL.rstrip('/')}{path}?{query}", left))

    def _check_askable(self, question: Question[Any], request: dict[str, Any]) -> None:
        if self._row.parent is not None:
            raise CannotAsk(f"{self._row.tool} can ask nobody. {NOBODY_TO_ASK}")
        super()._check_askable(question, request)

    def _check_goes_on(self) -> None:
        self.check()

    def _check_may_end(self) -> None:
        if self._interrupter.shielded:
            raise RuntimeError("A question ends the run, so it cannot be asked inside shield(); ask before it.")

    def _keep(self, key: str, value: Any) -> None:
        # An interrupt between the recorder's lock and its release would leave it held for good.
        with self._interrupter.shield():
            self._store(key, value)

    async def _akeep(self, key: str, value: Any) -> None:
        await asyncio.to_thread(self._store, key, value)

    def _store(self, key: str, value: Any) -> None:
        kept = redact_each(Kind.KEPT, self._row.tool, {key: value}).kept
        keep = partial(input_rounds.keep, self._row.pk, key, value, worker=self._row.worker, kept=kept)
        if not self._recorder.call(keep):
            raise RuntimeError(f"What was done once as {key!r} cannot be kept: the request is not this run's any more.")
