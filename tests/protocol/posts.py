"""A well-formed modern POST that each test changes in one place."""

import json
from collections.abc import Mapping
from typing import Any

from mcp_app.protocol.errors import Rejection
from mcp_app.protocol.headers import NAME_SOURCES, Headers
from mcp_app.protocol.inbound import ModernNotification, classify
from mcp_app.protocol.legacy.inbound import LegacyPost
from mcp_app.protocol.metadata import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from mcp_app.protocol.requests import Route
from mcp_app.protocol.revisions import MODERN

ABSENT: Any = object()
"""Omits a member or header."""


def modern_meta(**changes: Any) -> dict[str, Any]:
    """`params._meta`; `changes` are keyed by the constant's last word (`progressToken`, `clientInfo`, ...)."""
    meta: dict[str, Any] = {
        PROTOCOL_VERSION: MODERN,
        CLIENT_INFO: {"name": "test", "version": "1"},
        CLIENT_CAPABILITIES: {},
    }
    known = {key.rpartition("/")[2]: key for key in meta}
    known["logLevel"] = "io.modelcontextprotocol/logLevel"
    for name, value in changes.items():
        meta[known.get(name, name)] = value
    return {key: value for key, value in meta.items() if value is not ABSENT}


def headers_of(fields: Mapping[str, Any]) -> Headers:
    """Return headers from a mapping. A list of values sends the field several times."""
    return Headers(
        (name.encode(), one if isinstance(one, bytes) else one.encode())
        for name, value in fields.items()
        for one in (value if isinstance(value, list) else [value])
        if one is not ABSENT
    )


def post(
    method: str = "tools/list",
    params: Mapping[str, Any] | None = None,
    *,
    request_id: Any = 7,
    meta: Any = None,
    headers: Mapping[str, Any] | None = None,
) -> Route | ModernNotification | LegacyPost | Rejection:
    """Classify a modern request; `headers` overrides single fields (lower-case names)."""
    params = dict(params or {})
    params["_meta"] = modern_meta() if meta is None else meta
    if params["_meta"] is ABSENT:
        del params["_meta"]
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    if request_id is ABSENT:
        del body["id"]
    fields: dict[str, Any] = {
        "mcp-protocol-version": MODERN,
        "mcp-method": method,
        "accept": "application/json, text/event-stream",
    }
    if isinstance(name := params.get(NAME_SOURCES.get(method, "")), str):
        fields["mcp-name"] = name
    fields.update(headers or {})
    return classify(headers_of(fields), json.dumps(body).encode())


def route(*args: Any, **kwargs: Any) -> Route:
    outcome = post(*args, **kwargs)
    assert isinstance(outcome, Route), outcome
    return outcome


def rejection(*args: Any, **kwargs: Any) -> Rejection:
    outcome = post(*args, **kwargs)
    assert isinstance(outcome, Rejection), outcome
    return outcome
