"""The last rungs of a `tools/call`, which need the database: the tool, its headers, its arguments; then its row.

Runs in a thread. Everything that is refused here leaves no row.
"""

from typing import Any

from mcp_app.auth.challenges import insufficient_scope
from mcp_app.catalogue import call_limits, finding, schema
from mcp_app.catalogue.call_limits import Excess
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.conf import settings
from mcp_app.lifecycle import sessions, task_handles, transitions
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

TOO_MANY_TASKS = "Too many tasks of yours are open; wait for one to end, or cancel one."


def admit(call: CallTool, exchange: Exchange) -> Request | Rejection | dict[str, Any]:
    """Store the call, or queue again the one that it answers; or give the response, a Rejection or a result.

    Bad arguments are an `isError` result (server/tools).
    """
    found = finding.find(call.name, exchange.principal)
    request_id = exchange.route.request_id
    if found is None:
        return fail(INVALID_PARAMS, unknown_tool(call.name), request_id)
    tool, excess = found
    if missing := tool.registered.access.missing_scopes(exchange.principal):
        return insufficient_scope(missing, tool.registered.access.scopes, exchange.principal.endpoint, request_id)
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
    if excess is not None:
        return excessive(excess, request_id)
    is_task = exchange.makes_tasks and tool.registered.task == TaskMode.ALWAYS
    stored = call_limits.store(_submission(call, tool, exchange), tool, _submit_task if is_task else _submit)
    return excessive(stored, request_id) if isinstance(stored, Excess) else stored


def _submit_task(submission: Submission) -> Request | Rejection:
    return task_handles.submit(submission) or too_many(TOO_MANY_TASKS, submission.jsonrpc_id)


def _submit(submission: Submission) -> Request | Rejection:
    if submission.session is None:
        return transitions.submit(submission)
    try:
        return sessions.submit(submission)
    except sessions.SessionEndedError:
        return session_not_found(submission.jsonrpc_id)
    except sessions.RepeatedIdError:
        return refuse(INVALID_REQUEST, "A request with this id is in flight in the session.", submission.jsonrpc_id)
    except sessions.TooManyCallsError:
        at_most = settings.MAX_OPEN_REQUESTS_PER_PRINCIPAL
        return too_many(f"The session has {at_most} calls in flight; wait for one to end.", submission.jsonrpc_id)


def _submission(call: CallTool, tool: OfferedTool, exchange: Exchange) -> Submission:
    return Submission(
        **tool.terms,
        **exchange.of_itself,
        arguments=call.arguments,
        protocol_version=exchange.route.metadata.protocol_version,
        principal=exchange.principal,
        answers=call.answers.input_responses,
        session=exchange.session_id,
    )
