"""Checks a `tools/call` against the database, stores its row, and publishes its Celery message.

These checks need the tool, which is read from the database: the caller's scopes and capabilities, the
`Mcp-Param-*` headers, the arguments, the limits. They run in a thread for a whole batch, the calls
that arrived while the previous batch was handled. A refused call leaves no row.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from mcp_app.auth.challenges import scopes_required
from mcp_app.auth.principal import Principal
from mcp_app.catalogue import arguments, catalogue
from mcp_app.catalogue.arguments import Accepted
from mcp_app.catalogue.catalogue import Excess, FoundTool, OfferedTool
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.catalogue.registry import RegisteredTool
from mcp_app.conf import settings
from mcp_app.lifecycle import publishing, task_handles
from mcp_app.lifecycle.limits.capacity import Counts
from mcp_app.lifecycle.requests import transitions
from mcp_app.lifecycle.requests.submission import Submission, redacted_arguments
from mcp_app.lifecycle.sessions import sessions
from mcp_app.models import Request, request_ids
from mcp_app.protocol import results, tasks
from mcp_app.protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Rejection,
    fail,
    missing_client_capability,
    refuse,
    session_not_found,
    unknown_tool_message,
)
from mcp_app.protocol.headers import check_param_headers
from mcp_app.protocol.metadata import has_capabilities
from mcp_app.protocol.requests import CallTool
from mcp_app.states import TaskMode
from mcp_app.transport.calls import round_trips
from mcp_app.transport.process.admission import excessive, too_many
from mcp_app.transport.serving.exchange import Exchange

AdmissionOutcome: TypeAlias = Request | Rejection | dict[str, Any]
"""The call's row, or the response that refuses it (an error, or a result with `isError`)."""

TOO_MANY_TASKS = "Too many tasks are open; wait for one of yours to end, or cancel one."


def required_capabilities(tool: RegisteredTool, *, makes_tasks: bool) -> Mapping[str, Any]:
    """Return the ClientCapabilities that a client must declare to call a tool.

    `makes_tasks`: whether the client's transport and revision have tasks. If not, a call that would
    always become a task is served as an ordinary call.
    """
    required = tool.requires or {}
    if not makes_tasks or tool.task != TaskMode.ALWAYS:
        return required
    return {**required, "extensions": {**required.get("extensions", {}), **tasks.CAPABILITY["extensions"]}}


@dataclass(slots=True, eq=False)
class IncomingCall:
    """A call that is being admitted in a thread.

    At the same time the event loop reads `row` and `publishing_since`, and may set `is_given_up`.
    """

    call: CallTool
    exchange: Exchange
    id: UUID = field(default_factory=request_ids.new)
    """The id of its row, unless it answers the questions of an earlier call."""
    row: Request | None = None
    """Its row, as soon as it is stored."""
    publishing_since: float = math.inf
    """When publishing its message began (`time.monotonic`)."""
    is_given_up: bool = False
    """Whether its client has left. It is then not published, and its stream cancels it."""


def admit(call: CallTool, exchange: Exchange) -> AdmissionOutcome:
    """Check and store one call, without publishing it.

    If it answers the questions of an earlier call, queue that one again.

    Bad arguments give a result with `isError` and not an error, so that the language model sees what
    to correct. Source: 2026-07-28 server/tools, "Error Handling".
    """
    [outcome] = _admit_all([IncomingCall(call, exchange)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def admit_and_publish(calls: Sequence[IncomingCall]) -> list[AdmissionOutcome | Exception]:
    """Admit several calls as `admit` does, and publish those that were stored.

    Returns an outcome for each call. A returned row was published, unless its call was given up in
    the meantime. If the broker could not be reached, the outcome is a `BrokerUnavailableError`.
    """
    outcomes = _admit_all(calls)
    to_publish = [call for call in calls if call.row is not None and not call.is_given_up]
    now = time.monotonic()
    for call in to_publish:
        call.publishing_since = now
    rows = [call.row for call in to_publish if call.row is not None]
    broker_errors = dict(zip((row.pk for row in rows), publishing.publish_all(rows), strict=True))
    return [(broker_errors.get(each.pk) or each) if isinstance(each, Request) else each for each in outcomes]


def _admit_all(calls: Sequence[IncomingCall]) -> list[AdmissionOutcome | Exception]:
    """Check and store all calls.

    Those that need a transaction of their own are stored while they are checked, the others
    afterwards with one statement.
    """
    batch = _AdmissionBatch()
    checked = [batch.check(each) for each in calls]
    stored = iter(transitions.submit_all([each for each in checked if isinstance(each, Submission)]))
    outcomes = [next(stored) if isinstance(each, Submission) else each for each in checked]
    for call, outcome in zip(calls, outcomes, strict=True):
        if isinstance(outcome, Request):
            call.row = outcome
    return outcomes


class _AdmissionBatch:
    """Calls that are admitted together.

    A tool is looked up once for each caller, and each admitted call counts for the calls after it.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, Principal, str], FoundTool | Exception | None] = {}
        self._own: Counter[tuple[Principal, str]] = Counter()
        self._together: Counter[Principal] = Counter()

    def check(self, incoming: IncomingCall) -> Submission | AdmissionOutcome | Exception:
        """Return the submission to store with the others, or the outcome."""
        try:
            outcome = self._check(incoming)
        except Exception as error:
            return error
        if isinstance(outcome, Request):
            incoming.row = outcome
        if isinstance(outcome, Submission | Request):
            principal = incoming.exchange.principal
            self._own[principal, principal.network] += 1
            self._together[principal] += 1
        return outcome

    def _check(self, incoming: IncomingCall) -> Submission | AdmissionOutcome:
        call, exchange = incoming.call, incoming.exchange
        found = self._find(call.name, exchange.principal)
        request_id = exchange.route.request_id
        if found is None:
            return fail(INVALID_PARAMS, unknown_tool_message(call.name), request_id)
        tool = found.tool
        if missing := tool.registered.access.missing_scopes(exchange.principal):
            return scopes_required(missing, tool.registered.access.scopes, exchange.principal, request_id)
        required = required_capabilities(tool.registered, makes_tasks=exchange.makes_tasks)
        if not has_capabilities(required, exchange.route.metadata.client_capabilities):
            return missing_client_capability(required, request_id)
        if exchange.mirrors_params:
            refusal = check_param_headers(exchange.headers, tool.registered.header_params, call.arguments, request_id)
            if refusal is not None:
                return refusal
        if call.answers.request_state is not None:
            return round_trips.resume(call, exchange)
        try:
            accepted = arguments.accept(tool.registered, call.arguments)
        except InvalidArguments as error:
            return results.complete(results.tool_error(str(error)), exchange.server_info())
        who = exchange.principal
        pending = Counts(self._own[who, who.network], self._together[who], self._own.total())
        excess = found.excess(who, pending)
        return excessive(excess, request_id) if excess is not None else _store(incoming, tool, accepted)

    def _find(self, name: str, principal: Principal) -> FoundTool | None:
        key = (name, principal, principal.network)
        if key not in self._found:
            try:
                self._found[key] = catalogue.find_tool(name, principal)
            except Exception as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found


def _store(incoming: IncomingCall, tool: OfferedTool, accepted: Accepted) -> Submission | Request | Rejection:
    """Store a call that needs a transaction of its own. Return the submission of any other call."""
    call, exchange = incoming.call, incoming.exchange
    submission = Submission(
        id=incoming.id,
        **tool.terms,
        **exchange.submission_fields,
        arguments=call.arguments,
        kept_arguments=redacted_arguments(tool.name, call.arguments, accepted.arguments),
        protocol_version=exchange.route.metadata.protocol_version,
        principal=exchange.principal,
        answers=call.answers.input_responses,
        session=exchange.session_id,
    )
    submit: Callable[[Submission], Submission | Request | Rejection] = _submit_together
    if exchange.makes_tasks and tool.registered.task == TaskMode.ALWAYS:
        submit = _submit_task
    elif exchange.session_id is not None:
        submit = _submit_in_session
    elif tool.concurrency is not None:  # counted and stored under one lock
        submit = transitions.submit
    stored = catalogue.store(submission, tool, submit)
    return excessive(stored, exchange.route.request_id) if isinstance(stored, Excess) else stored


def _submit_together(submission: Submission) -> Submission:
    """Return the submission, which is stored together with others."""
    return submission


def _submit_task(submission: Submission) -> Request | Rejection:
    return task_handles.submit(submission) or too_many(TOO_MANY_TASKS, submission.jsonrpc_id)


def _submit_in_session(submission: Submission) -> Request | Rejection:
    try:
        return sessions.submit(submission)
    except sessions.SessionEndedError:
        return session_not_found(submission.jsonrpc_id)
    except sessions.RepeatedIdError:
        return refuse(
            INVALID_REQUEST,
            "A request with this id is still open in the session; use a new id for each request.",
            submission.jsonrpc_id,
        )
    except sessions.TooManyCallsError:
        at_most = settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL
        return too_many(f"The session has {at_most} calls in flight; wait for one to end.", submission.jsonrpc_id)
