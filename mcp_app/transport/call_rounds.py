"""A `tools/call` that comes back with answers: from its `requestState` to a queued row, to more questions, or to a no.

Runs in a thread. What does not verify is refused in one sentence, whatever is wrong with it, and changes nothing. What
is missing or does not fit is asked again at once, without a run. Source: 2026-07-28 basic/patterns/mrtr.
"""

from collections.abc import Mapping
from typing import Any

from mcp_app.catalogue import questions
from mcp_app.catalogue.errors import MalformedAnswer, UnfitAnswer
from mcp_app.lifecycle import input_rounds
from mcp_app.lifecycle.endings import final_result
from mcp_app.lifecycle.input_rounds import Retry
from mcp_app.models import Request
from mcp_app.protocol import results
from mcp_app.protocol.capabilities import declared
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, clip, fail, missing_client_capability
from mcp_app.protocol.requests import CallTool
from mcp_app.states import TERMINAL, Status
from mcp_app.transport.exchange import Exchange, server_info
from mcp_app.transport.request_state import Origin, RequestState, seal, unseal

REFUSED = "params.requestState is not valid for this request: send the call again without it, and without answers."


def resume(call: CallTool, exchange: Exchange) -> Request | Rejection | dict[str, Any]:
    """Take the answers: the row, to be published again; or a refusal; or the response that it has already."""
    refused = fail(INVALID_PARAMS, REFUSED, exchange.route.request_id)
    state = unseal(call.request_state or "", _origin(call, exchange))
    row = input_rounds.waiting_for(state.request_id, state.number) if state is not None else None
    if state is None or row is None or not exchange.principal.owns(row):
        return refused
    if row.status in TERMINAL:
        return results.call_tool(final_result(row), server_info())
    try:
        answers, again = _sorted(row.questions, call.input_responses)
    except MalformedAnswer as error:
        return fail(INVALID_PARAMS, str(error), exchange.route.request_id)
    needed = questions.capability(again.values())
    if not declared(needed, exchange.route.metadata.client_capabilities):
        return missing_client_capability(needed, exchange.route.request_id)
    taken = input_rounds.answer(row.pk, state.number, answers, again, _retry(exchange))
    if taken is None:
        return refused
    if taken.status == Status.QUEUED:
        return taken
    return required(call, exchange, RequestState(taken.pk, taken.input_round), taken.questions)


def required(call: CallTool, exchange: Exchange, state: RequestState, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The InputRequiredResult that asks for the answers of a round."""
    sealed = seal(state, _origin(call, exchange))
    return results.input_required(asked, request_state=sealed, server_info=server_info())


def _retry(exchange: Exchange) -> Retry:
    metadata = exchange.route.metadata
    return Retry(
        jsonrpc_id=exchange.route.request_id,
        server=exchange.server.identity.boot_id,
        progress_token=metadata.progress_token,
        log_level=metadata.log_level or "",
        client_info=metadata.client_info or {},
        client_capabilities=metadata.client_capabilities,
        trace_context=metadata.trace_context,
        remote_address=exchange.remote_address,
    )


def _sorted(asked: Mapping[str, Any], responses: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is answered, and what is to be asked again. Unknown keys are ignored. Raises `MalformedAnswer`."""
    answers, again = {}, {}
    for key, request in asked.items():
        if key not in responses:
            again[key] = request
            continue
        try:
            answers[key] = questions.check(request, responses[key])
        except UnfitAnswer as problem:
            again[key] = questions.again(request, str(problem))
        except MalformedAnswer as error:
            raise MalformedAnswer(f"params.inputResponses[{clip(key)!r}]: {error}.") from None
    return answers, again


def _origin(call: CallTool, exchange: Exchange) -> Origin:
    return Origin(exchange.principal, exchange.route.method, call.name, call.arguments)
