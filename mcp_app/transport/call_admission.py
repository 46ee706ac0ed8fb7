"""The last rungs of a `tools/call`, which need the database: the tool, its headers, its arguments; then its row.

Runs in a thread. Everything that is refused here leaves no row.
"""

from collections.abc import Mapping
from typing import Any

from mcp_app.catalogue import catalogue, schema
from mcp_app.catalogue.catalogue import OfferedTool
from mcp_app.catalogue.errors import InvalidArguments
from mcp_app.lifecycle import transitions
from mcp_app.lifecycle.transitions import Submission
from mcp_app.models import Request
from mcp_app.protocol.errors import INVALID_PARAMS, Rejection, clip, fail, missing_client_capability
from mcp_app.protocol.headers import check_param_headers
from mcp_app.protocol.requests import CallTool
from mcp_app.protocol.results import tool_error
from mcp_app.transport.exchange import Exchange


def admit(call: CallTool, exchange: Exchange) -> Request | Rejection | dict[str, Any]:
    """Store the call; or say why not: a Rejection, or for bad arguments an `isError` CallToolResult (server/tools)."""
    tool = catalogue.find(call.name, exchange.principal)
    request_id = exchange.route.request_id
    if tool is None:
        return fail(INVALID_PARAMS, f"Unknown tool: {clip(call.name)}.", request_id)
    required = tool.registered.requires or {}
    if not _declared(required, exchange.route.metadata.client_capabilities):
        return missing_client_capability(required, request_id)
    if exchange.mirrors_params:
        refusal = check_param_headers(exchange.headers, tool.registered.header_params, call.arguments, request_id)
        if refusal is not None:
            return refusal
    try:
        schema.bind(tool.registered, call.arguments)
    except InvalidArguments as error:
        return tool_error(str(error))
    return transitions.submit(_submission(call, tool, exchange))


def _declared(required: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
    """Whether a ClientCapabilities object holds everything that `required`, another, names."""
    return all(
        name in declared and (not isinstance(wanted, Mapping) or _declared(wanted, _as_mapping(declared[name])))
        for name, wanted in required.items()
    )


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _submission(call: CallTool, tool: OfferedTool, exchange: Exchange) -> Submission:
    metadata = exchange.route.metadata
    return Submission(
        jsonrpc_id=exchange.route.request_id,
        tool=tool.name,
        arguments=call.arguments,
        protocol_version=metadata.protocol_version,
        principal=exchange.principal,
        cancel_policy=tool.cancel_policy,
        cooperative_grace=tool.cooperative_grace,
        hard_grace=tool.hard_grace,
        time_limit=tool.time_limit,
        queue=tool.queue,
        progress_token=metadata.progress_token,
        log_level=metadata.log_level or "",
        client_info=metadata.client_info or {},
        client_capabilities=metadata.client_capabilities,
        trace_context=exchange.span.carrier(metadata.trace_context),
        remote_address=exchange.remote_address,
        server=exchange.server.identity.boot_id,
    )
