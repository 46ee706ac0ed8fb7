"""`resources/read` and `prompts/get` that ask a legacy client: on their own stream, while this process waits.

What asks runs again with the answers, as in the modern era; what it knows is kept here meanwhile, so that a client that
is cut off begins anew. Waits in no thread. Source: 2025-11-25 client/elicitation, client/sampling, client/roots.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final
from uuid import UUID, uuid4

from mcp_app.catalogue import questions
from mcp_app.catalogue.asking import Asked
from mcp_app.catalogue.errors import UnfitAnswer
from mcp_app.conf import settings
from mcp_app.lifecycle import read_questions, sessions
from mcp_app.lifecycle.read_questions import NobodyAsksError, TooManyQuestionsError
from mcp_app.lifecycle.session_inputs import elicitation_id
from mcp_app.protocol import legacy_questions, results
from mcp_app.protocol.errors import INTERNAL_ERROR, Rejection, fail
from mcp_app.protocol.legacy_sse import EventId
from mcp_app.transport import author_code, read_rounds, reads
from mcp_app.transport.admission import shutting_down, too_many
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.legacy.questions import read_response
from mcp_app.transport.read_rounds import Read
from mcp_app.transport.server import Server
from mcp_app.transport.subjects import Listener

UNANSWERED: Final = "Nobody answered in time what this asks; ask for it again."
TOO_MANY: Final = "This asks for input, and as much of yours as may already waits for it; answer that first."
LOST: Final = "The server lost what this asked; ask for it again."
TOO_LARGE: Final = "What was asked and answered so far is more than this server keeps."


class AskingRead:
    """One read or prompt, the client that is asked, and what it has answered."""

    def __init__(self, exchange: LegacyExchange, read: Read) -> None:
        self._exchange = exchange
        self._read = read
        self._id = uuid4()
        self._numbers: Iterator[int] = count(1)
        self._answers: dict[str, Any] = {}
        self._open: dict[int, tuple[str, Mapping[str, Any]]] = {}
        self._listener: Listener | None = None
        self._stopping = False
        self._until_cancelled = asyncio.timeout(None)

    def is_called(self, session_id: UUID, jsonrpc_id: str | int) -> bool:
        """Whether its client, in this session, has it under this id."""
        own = self._exchange.route.request_id
        return self._exchange.session_id == session_id and type(own) is type(jsonrpc_id) and own == jsonrpc_id

    def cancel(self) -> None:
        """Its client waits for it no more. What runs of it in a thread goes on, for nobody."""
        with suppress(RuntimeError):  # it has ended, or is cancelled already
            self._until_cancelled.reschedule(asyncio.get_running_loop().time())

    def end(self) -> None:
        """The server process is to end, and nobody else has what this one knows."""
        self._stopping = True
        if self._listener is not None:
            self._listener.end()

    async def run(self) -> None:
        """Raises `NobodyAsksError` where its client cancelled it or ended the session, or its questions were lost."""
        try:
            async with self._until_cancelled:
                await self._run()
        except TimeoutError:
            if self._until_cancelled.expired():
                raise NobodyAsksError from None
            raise

    async def _run(self) -> None:
        kept: dict[str, Any] = {}
        while True:
            known = read_rounds.known(self._exchange, self._answers, kept)
            made = await author_code.run(self._exchange, partial(self._read.run, known))
            if not isinstance(made, Asked):
                break
            kept = made.kept
            if (refusal := await self._ask(made)) is not None:
                made = refusal
                break
        if isinstance(made, Rejection):
            await self._exchange.reject(made)
        else:
            await self._exchange.complete(results.complete(made, self._exchange.server_info()))

    async def _ask(self, asked: Asked) -> Rejection | None:
        """Ask until everything is answered; or why not. Raises `NobodyAsksError`."""
        if self._stopping:
            return shutting_down(self._exchange.request_id)
        if len(json.dumps([asked.questions, asked.kept, self._answers])) > settings.MAX_REQUEST_STATE_BYTES:
            return self._fail(TOO_LARGE)
        deadline = time.monotonic() + settings.MAX_INPUT_SECONDS
        with self._exchange.asking(self._id):
            try:
                await self._listen()
                await self._put(asked.questions)
                while self._open and not self._stopping and time.monotonic() < deadline:
                    await self._wait(deadline)
                    await self._take()
                refusal = self._unanswered()
            except TooManyQuestionsError:
                refusal = too_many(TOO_MANY, self._exchange.request_id)
            except NobodyAsksError:
                await self._take_back()
                raise
            except asyncio.CancelledError:
                if self._exchange.cancelled:
                    await self._exchange.take_back(self._withdrawals())
                raise
            finally:
                await self._leave()
        if refusal is not None:
            await self._take_back()
        return refusal

    def _unanswered(self) -> Rejection | None:
        """What is said where something is not answered, and nobody waits for it any more."""
        if not self._open:
            return None
        return shutting_down(self._exchange.request_id) if self._stopping else self._fail(UNANSWERED)

    async def _listen(self) -> None:
        session_id = self._exchange.session_id
        session = () if session_id is None else (sessions.subject(session_id),)
        self._listener = await self._exchange.server.tail.listen((read_questions.subject(self._id), *session))

    async def _put(self, asked: Mapping[str, Mapping[str, Any]]) -> None:
        """Send questions, once it is noted that they are asked."""
        exchange = self._exchange
        put = {next(self._numbers): question for question in asked.items()}
        note = partial(
            read_questions.ask,
            self._id,
            list(put),
            jsonrpc_id=exchange.route.request_id,
            session=exchange.session_id,
            principal=exchange.principal,
            server=exchange.server.identity.boot_id,
        )
        await exchange.server.rows.run_or_undo(note, partial(read_questions.forget, self._id))
        self._open |= put
        if not exchange.response.started:
            await exchange.response.start_events()
        for number, (key, question) in put.items():
            name, its_id = str(EventId(self._id, number)), elicitation_id(self._id, key)
            await exchange.response.event(legacy_questions.as_request(exchange.revision, name, question, its_id))

    async def _wait(self, deadline: float) -> None:
        """Until something was answered, or the client is to see that the stream is alive."""
        assert self._listener is not None, "it listens before it asks"
        response = self._exchange.response
        patience = min(settings.KEEP_ALIVE - response.silent_seconds, deadline - time.monotonic())
        try:
            async with asyncio.timeout(max(0.0, patience)):
                await self._listener.next()
        except TimeoutError:
            await response.keep_alive()

    async def _take(self) -> None:
        """Take what was answered; what does not fit is asked again."""
        answered = await self._exchange.server.rows.run(read_questions.take, self._id, list(self._open))
        again = {}
        for number, message in answered.items():
            key, question = self._open.pop(number)
            try:
                self._answers[key] = read_response(self._id, question, message)
            except UnfitAnswer as problem:
                again[key] = questions.again(question, str(problem))
        if again:
            await self._put(again)

    async def _take_back(self) -> None:
        for message in self._withdrawals():
            await self._exchange.response.event(message)

    def _withdrawals(self) -> list[dict[str, Any]]:
        """What takes back the questions that nobody has answered."""
        names = [str(EventId(self._id, number)) for number in self._open]
        return [legacy_questions.withdrawn(name, "nobody waits for it any more") for name in names]

    async def _leave(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._exchange.server.rows.run(read_questions.forget, self._id)

    def _fail(self, words: str) -> Rejection:
        return fail(INTERNAL_ERROR, words, self._exchange.route.request_id)


async def read_resource(exchange: LegacyExchange) -> None:
    """`resources/read`."""
    await _serve(exchange, reads.resource_read(exchange))


async def get_prompt(exchange: LegacyExchange) -> None:
    """`prompts/get`."""
    await _serve(exchange, reads.prompt_read(exchange))


def cancel(server: Server, session_id: UUID, jsonrpc_id: str | int) -> bool:
    """Have what this process serves under this id end; whether it serves any such."""
    meant = [
        each
        for each in server.admission.asking.open
        if isinstance(each, AskingRead) and each.is_called(session_id, jsonrpc_id)
    ]
    for each in meant:
        each.cancel()
    return bool(meant)


async def _serve(exchange: LegacyExchange, read: Read | Rejection) -> None:
    if isinstance(read, Rejection):
        await exchange.reject(read)
        return
    asking = AskingRead(exchange, read)
    with exchange.server.admission.asking.hold(exchange.principal, asking):
        try:
            await asking.run()
        except NobodyAsksError:
            if exchange.session_id is None:
                # No word of its client comes this way: other processes took this one for dead.
                await exchange.reject(fail(INTERNAL_ERROR, LOST, exchange.route.request_id))
            else:
                await exchange.end_without_response()
