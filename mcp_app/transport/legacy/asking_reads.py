"""`resources/read` and `prompts/get` of legacy clients. Their code may ask the client for input.

The questions are sent on the stream of the response. When they are answered, the authors' code runs
again with the answers, as in the modern era. An answer is stored only until this process takes it
into memory, so a client that loses its connection must send its request again. No thread waits for
an answer.

    1. Run the code. If it returns a result, respond.
    2. Otherwise store the numbers of the questions, and send the questions on the stream.
    3. Any server process may receive an answer. It stores the answer and wakes this process.
    4. When all questions are answered, go to 1. On a timeout, a shutdown, or if the site no longer
       accepts the caller, withdraw the questions and respond with an error. If the client has
       cancelled the request or ended its session, send no response.

Source: 2025-11-25 client/elicitation, client/sampling, client/roots.
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

from mcp_app.catalogue.errors import UnfitAnswer
from mcp_app.catalogue.input import questions
from mcp_app.catalogue.input.asking import InputNeeded
from mcp_app.conf import settings
from mcp_app.lifecycle.input import read_questions
from mcp_app.lifecycle.input.read_questions import ReadEndedError, TooManyQuestionsError
from mcp_app.lifecycle.input.session_inputs import elicitation_id
from mcp_app.lifecycle.sessions import sessions
from mcp_app.protocol import results
from mcp_app.protocol.errors import INTERNAL_ERROR, Rejection, fail
from mcp_app.protocol.legacy import questions as legacy_questions
from mcp_app.protocol.sse import EventId
from mcp_app.transport.legacy.exchange import LegacyExchange
from mcp_app.transport.legacy.questions import read_response
from mcp_app.transport.process.admission import shutting_down, too_many
from mcp_app.transport.reads import author_code, methods, round_trips
from mcp_app.transport.reads.round_trips import Read
from mcp_app.transport.server import Server
from mcp_app.transport.watching.change_table import ChangeListener

UNANSWERED: Final = "The question was not answered in time; send the request again."
TOO_MANY: Final = "This request asks for input, but too many of your requests already wait for it; answer those first."
LOST: Final = "The server lost the question of this request; send the request again."
TOO_LARGE: Final = "The questions and answers of this request are larger than this server can keep."


class AskingRead:
    """One `resources/read` or `prompts/get`, with its questions and answers."""

    def __init__(self, exchange: LegacyExchange, read: Read) -> None:
        self._exchange = exchange
        self._read = read
        self._id = uuid4()
        self._numbers: Iterator[int] = count(1)
        self._answers: dict[str, Any] = {}
        self._open: dict[int, tuple[str, Mapping[str, Any]]] = {}
        """The unanswered questions, with their keys, by number."""
        self._listener: ChangeListener | None = None
        self._stopping = False
        self._until_cancelled = asyncio.timeout(None)
        """Expires when the client cancels."""

    def has_id(self, session_id: UUID, jsonrpc_id: str | int) -> bool:
        """Return whether this is the request that the session's client sent with this JSON-RPC id."""
        own = self._exchange.route.request_id
        return self._exchange.session_id == session_id and type(own) is type(jsonrpc_id) and own == jsonrpc_id

    def cancel(self) -> None:
        """Stop waiting, because the client has cancelled the read.

        Code that already runs in a thread finishes.
        """
        with suppress(RuntimeError):  # it has ended, or was cancelled before
            self._until_cancelled.reschedule(asyncio.get_running_loop().time())

    def end(self) -> None:
        """Ask no more, because the process shuts down. No other process has the answers so far.

        Code that already runs may still finish.
        """
        self._stopping = True
        if self._listener is not None:
            self._listener.end()

    async def run(self) -> None:
        """Serve the read.

        Raises `ReadEndedError` if its client cancelled it or ended the session, or its questions
        were lost.
        """
        try:
            async with self._until_cancelled:
                await self._run()
        except TimeoutError:
            if self._until_cancelled.expired():
                raise ReadEndedError from None
            raise

    async def _run(self) -> None:
        kept: dict[str, Any] = {}
        while True:
            known = round_trips.make_known(self._exchange, self._answers, kept)
            result = await author_code.run(self._exchange, partial(self._read.run, known))
            if not isinstance(result, InputNeeded):
                break
            kept = result.kept
            if (refusal := await self._ask(result)) is not None:
                result = refusal
                break
        if isinstance(result, Rejection):
            await self._exchange.reject(result)
        else:
            await self._exchange.complete(results.complete(result, self._exchange.server_info()))

    async def _ask(self, needed: InputNeeded) -> Rejection | None:
        """Send the questions, and wait until all are answered.

        Return a rejection if that fails. Raises `ReadEndedError`.
        """
        if self._stopping:
            return shutting_down(self._exchange.request_id)
        if len(json.dumps([needed.questions, needed.kept, self._answers])) > settings.MAX_REQUEST_STATE_BYTES:
            return self._internal_error(TOO_LARGE)
        deadline = time.monotonic() + settings.MAX_INPUT_SECONDS
        with self._exchange.peer.asking(self._id):
            try:
                await self._listen()
                await self._send_questions(needed.questions)
                refusal = await self._wait_for_answers(deadline)
            except TooManyQuestionsError:
                refusal = too_many(TOO_MANY, self._exchange.request_id)
            except ReadEndedError:
                await self._withdraw()
                raise
            except asyncio.CancelledError:
                if self._exchange.interruption.cancelled:  # by the client; its stream takes no messages any more
                    await self._exchange.peer.withdraw_questions(self._withdrawals())
                raise
            finally:
                await self._forget_questions()
        if refusal is not None:
            await self._withdraw()
        return refusal

    async def _wait_for_answers(self, deadline: float) -> Rejection | None:
        """Wait until every question is answered.

        Return a rejection on a timeout, a shutdown, or if the caller is no longer accepted.
        """
        while self._open and not self._stopping and time.monotonic() < deadline:
            await self._wait_for_change(deadline)
            await self._take_answers()
            if self._exchange.caller.is_due and (lost_access := await self._exchange.confirm_caller()) is not None:
                return lost_access.rejection
        if not self._open:
            return None
        return shutting_down(self._exchange.request_id) if self._stopping else self._internal_error(UNANSWERED)

    async def _listen(self) -> None:
        session_id = self._exchange.session_id
        of_session = () if session_id is None else (sessions.subject(session_id),)
        self._listener = await self._exchange.server.row_watcher.listen((read_questions.subject(self._id), *of_session))

    async def _send_questions(self, needed: Mapping[str, Mapping[str, Any]]) -> None:
        """Record that the questions are asked, then send them."""
        exchange = self._exchange
        numbered = {next(self._numbers): question for question in needed.items()}
        store = partial(
            read_questions.ask,
            self._id,
            list(numbered),
            jsonrpc_id=exchange.route.request_id,
            session=exchange.session_id,
            principal=exchange.principal,
            server=exchange.server.identity.boot_id,
        )
        await exchange.server.rows.run_or_undo(store, partial(read_questions.forget, self._id))
        self._open |= numbered
        if not exchange.response.started:
            await exchange.response.start_events()
        for number, (key, question) in numbered.items():
            jsonrpc_id, elicitation = str(EventId(self._id, number)), elicitation_id(self._id, key)
            await exchange.response.event(
                legacy_questions.question_request(exchange.revision, jsonrpc_id, question, elicitation)
            )

    async def _wait_for_change(self, deadline: float) -> None:
        """Wait for a change, but at most until a keep-alive, a check of the caller or the deadline is due.

        In the latter cases a keep-alive is sent.
        """
        assert self._listener is not None, "it listens before it asks"
        response = self._exchange.response
        longest = min(
            settings.KEEP_ALIVE - response.silent_seconds,
            deadline - time.monotonic(),
            self._exchange.caller.seconds_to_wait,
        )
        try:
            async with asyncio.timeout(max(0.0, longest)):
                await self._listener.next()
        except TimeoutError:
            await response.keep_alive()

    async def _take_answers(self) -> None:
        """Take the new answers. A question whose answer does not fit is asked again."""
        answered = await self._exchange.server.rows.run(read_questions.take, self._id, list(self._open))
        again = {}
        for number, message in answered.items():
            key, question = self._open.pop(number)
            try:
                self._answers[key] = read_response(self._id, question, message)
            except UnfitAnswer as problem:
                again[key] = questions.again(question, str(problem))
        if again:
            await self._send_questions(again)

    async def _withdraw(self) -> None:
        for message in self._withdrawals():
            await self._exchange.response.event(message)

    def _withdrawals(self) -> list[dict[str, Any]]:
        """Return the messages that withdraw the open questions."""
        names = [str(EventId(self._id, number)) for number in self._open]
        return [legacy_questions.question_cancelled(name, "no process waits for it any more") for name in names]

    async def _forget_questions(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._exchange.server.rows.run(read_questions.forget, self._id)

    def _internal_error(self, message: str) -> Rejection:
        return fail(INTERNAL_ERROR, message, self._exchange.route.request_id)


async def read_resource(exchange: LegacyExchange) -> None:
    """`resources/read`."""
    await _serve(exchange, methods.resource_read(exchange))


async def get_prompt(exchange: LegacyExchange) -> None:
    """`prompts/get`."""
    await _serve(exchange, methods.prompt_read(exchange))


def cancel(server: Server, session_id: UUID, jsonrpc_id: str | int) -> bool:
    """Cancel the requests with this session and JSON-RPC id that this process serves. Return whether there are any."""
    matching = [
        each
        for each in server.admission.asking.open
        if isinstance(each, AskingRead) and each.has_id(session_id, jsonrpc_id)
    ]
    for each in matching:
        each.cancel()
    return bool(matching)


async def _serve(exchange: LegacyExchange, read: Read | Rejection) -> None:
    if isinstance(read, Rejection):
        await exchange.reject(read)
        return
    asking = AskingRead(exchange, read)
    with exchange.server.admission.asking.hold(exchange.principal, asking):
        try:
            await asking.run()
        except ReadEndedError:
            if exchange.session_id is None:
                # Without a session its client cannot have cancelled it. Other processes took this one for dead.
                await exchange.reject(fail(INTERNAL_ERROR, LOST, exchange.route.request_id))
            else:
                # The client may have cancelled it at another process, and a cancelled request gets no response.
                await exchange.end_without_response()
