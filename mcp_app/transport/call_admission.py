"""The last rungs of a `tools/call`, which need the database: the tool, its headers, its arguments; then its row, and
its message to the broker.

Runs in a thread, for all calls of one moment. Everything that is refused here leaves no row.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from mcp_app import request_ids
from mcp_app.auth.challenges import lacks_scope
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import call_limits, finding, schema
from mcp_app.catalogue.call_limits import Excess
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.catalogue.finding import Found
from mcp_app.conf import settings
from mcp_app.lifecycle import publishing, sessions, task_handles, transitions
from mcp_app.lifecycle.submission import Submission
from mcp_app.models import Request
from mcp_app.protocol import results
from mcp_app.protocol.capabilities import declared
from mcp_app.protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Rejection,
    fail,
    missing_client_capability,
    refuse,
    session_not_found,
    unknown_tool,
)
from mcp_app.protocol.headers import check_param_headers
from mcp_app.protocol.requests import CallTool
from mcp_app.states import TaskMode
from mcp_app.transport import call_rounds
from mcp_app.transport.admission import excessive, too_many
from mcp_app.transport.exchange import Exchange
from mcp_app.transport.handover import required_capabilities

Outcome: TypeAlias = Request | Rejection | dict[str, Any]
"""The call's row, or its response: an error or a result."""


@dataclass(slots=True, eq=False)
class Asked:
    """A call on its way in, and what its event loop may know of it while a thread is busy with it."""

    call: CallTool
    exchange: Exchange
    id: UUID = field(default_factory=request_ids.new)
    """Its row's, if it has one of its own."""
    row: Request | None = None
    """Its row, once that is stored."""
    sent_at: float = math.inf
    """When its message was begun to be sent, in seconds of the monotonic clock."""
    is_given_up: bool = False
    """Whether nobody waits for it any more, so that it is to be cancelled, and not to be published."""


TOO_MANY_TASKS = "Too many tasks of yours are open; wait for one to end, or cancel one."


def admit(call: CallTool, exchange: Exchange) -> Outcome:
    """Store the call, or queue again the one that it answers; or give the response, a Rejection or a result.

    Bad arguments are an `isError` result (server/tools).
    """
    [outcome] = _admit_all([Asked(call, exchange)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def admit_and_publish(asked: Sequence[Asked]) -> list[Outcome | Exception]:
    """The same of several, those that nothing else is to be asked of stored by one statement; each its own outcome.

    What is stored is published: a row that is returned is on its way, and BrokerUnavailableError says that one is not.
    Not what was given up meanwhile: its client left before it was stored, and has nothing run.
    """
    outcomes = _admit_all(asked)
    sent = list(_to_be_sent(asked))
    refused = dict(zip((row.pk for row in sent), publishing.publish_all(sent), strict=True))
    return [(refused.get(each.pk) or each) if isinstance(each, Request) else each for each in outcomes]


def _to_be_sent(asked: Sequence[Asked]) -> Iterator[Request]:
    now = time.monotonic()
    for each in asked:
        if each.row is not None and not each.is_given_up:
            each.sent_at = now
            yield each.row


def _admit_all(asked: Sequence[Asked]) -> list[Outcome | Exception]:
    if len(asked) == 1 and (row := _store_as_expected(asked[0])) is not None:
        asked[0].row = row
        return [row]
    batch = _Batch()
    checked = [batch.check(each) for each in asked]
    stored = iter(transitions.submit_all([each for each in checked if isinstance(each, Submission)]))
    outcomes = [next(stored) if isinstance(each, Submission) else each for each in checked]
    for each, outcome in zip(asked, outcomes, strict=True):
        if isinstance(outcome, Request):
            each.row = outcome
    return outcomes


def _store_as_expected(asked: Asked) -> Request | None:
    """Store a call that comes alone by one statement, where its tool is as it was and nothing is to be said against it.

    None where that is not so: nothing was stored then.
    """
    call, exchange = asked.call, asked.exchange
    is_plain = call.answers.request_state is None and exchange.session_id is None
    if not is_plain or (expected := finding.expect(call.name, exchange.principal)) is None:
        return None
    found, condition = expected
    if found.tool.rate is not None or found.tool.concurrency is not None:  # counting is an act
        return None
    if exchange.makes_tasks and found.tool.registered.task == TaskMode.ALWAYS:
        return None
    submission = _Batch({(call.name, exchange.principal): found}).check(asked)
    return transitions.submit_where(submission, condition) if isinstance(submission, Submission) else None


class _Batch:
    """Calls that come at one moment: what is found for one holds for its like, and each counts for those after it."""

    def __init__(self, found: Mapping[tuple[str, Principal], Found] = MappingProxyType({})) -> None:
        self._found: dict[tuple[str, Principal], Found | Exception | None] = {**found}
        self._own: Counter[Principal] = Counter()

    def check(self, asked: Asked) -> Submission | Outcome | Exception:
        """What is to be stored with the others; or the outcome."""
        try:
            outcome = self._check(asked)
        except Exception as error:
            return error
        if isinstance(outcome, Request):
            asked.row = outcome
        if isinstance(outcome, Submission | Request):
            self._own[asked.exchange.principal] += 1
        return outcome

    def _check(self, asked: Asked) -> Submission | Outcome:
        call, exchange = asked.call, asked.exchange
        found = self._find(call.name, exchange.principal)
        request_id = exchange.route.request_id
        if found is None:
            return fail(INVALID_PARAMS, unknown_tool(call.name), request_id)
        tool = found.tool
        if missing := tool.registered.access.missing_scopes(exchange.principal):
            return lacks_scope(missing, tool.registered.access.scopes, exchange.principal, request_id)
        required = required_capabilities(tool.registered, makes_tasks=exchange.makes_tasks)
        if not declared(required, exchange.route.metadata.client_capabilities):
            return missing_client_capability(required, request_id)
        if exchange.mirrors_params:
            refusal = check_param_headers(exchange.headers, tool.registered.header_params, call.arguments, request_id)
            if refusal is not None:
                return refusal
        if call.answers.request_state is not None:
            return call_rounds.resume(call, exchange)
        try:
            schema.bind(tool.registered, call.arguments)
        except InvalidArguments as error:
            return results.call_tool(results.tool_error(str(error)), exchange.server_info())
        excess = found.excess(exchange.principal, self._own[exchange.principal], self._own.total())
        return excessive(excess, request_id) if excess is not None else _stored(asked, tool)

    def _find(self, name: str, principal: Principal) -> Found | None:
        key = (name, principal)
        if key not in self._found:
            try:
                self._found[key] = finding.find(name, principal)
            except Exception as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found


def _stored(asked: Asked, tool: OfferedTool) -> Submission | Request | Rejection:
    """Stored where that takes more than a statement; else what is to be."""
    exchange = asked.exchange
    stored = call_limits.store(_submission(asked, tool), tool, _how_to_store(tool, exchange))
    return excessive(stored, exchange.route.request_id) if isinstance(stored, Excess) else stored


def _how_to_store(tool: OfferedTool, exchange: Exchange) -> Callable[[Submission], Submission | Request | Rejection]:
    if exchange.makes_tasks and tool.registered.task == TaskMode.ALWAYS:
        return _submit_task
    if exchange.session_id is not None:
        return _submit_in_session
    # Counted and stored under one lock, or to be stored with the others.
    return _as_it_is if tool.concurrency is None else transitions.submit


def _submit_task(submission: Submission) -> Request | Rejection:
    return task_handles.submit(submission) or too_many(TOO_MANY_TASKS, submission.jsonrpc_id)


def _as_it_is(submission: Submission) -> Submission:
    return submission


def _submit_in_session(submission: Submission) -> Request | Rejection:
    try:
        return sessions.submit(submission)
    except sessions.SessionEndedError:
        return session_not_found(submission.jsonrpc_id)
    except sessions.RepeatedIdError:
        return refuse(INVALID_REQUEST, "A request with this id is in flight in the session.", submission.jsonrpc_id)
    except sessions.TooManyCallsError:
        at_most = settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL
        return too_many(f"The session has {at_most} calls in flight; wait for one to end.", submission.jsonrpc_id)


def _submission(asked: Asked, tool: OfferedTool) -> Submission:
    call, exchange = asked.call, asked.exchange
    return Submission(
        id=asked.id,
        **tool.terms,
        **exchange.of_itself,
        arguments=call.arguments,
        protocol_version=exchange.route.metadata.protocol_version,
        principal=exchange.principal,
        answers=call.answers.input_responses,
        session=exchange.session_id,
    )
