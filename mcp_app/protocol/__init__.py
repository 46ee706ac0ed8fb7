"""Pure MCP (revision 2026-07-28): bytes and headers in, values out; values in, bytes out.

Owns the wire: strict JSON-RPC, request metadata headers, the ladder of checks, the shapes of results and
notifications. Refuses everything with an effect: no Django, Celery, Channels, clock, log or I/O. Standard
library and `mcp_types` only.

    revisions                 which revisions exist, which are served, which era a request belongs to
    errors                    codes, their HTTP statuses, `Rejection`
    jsonrpc                   one message in, one message out
    headers accept            reading and checking HTTP fields
    metadata tracing          reading `params._meta`
    connection inbound        the ladder: before the body is read, then with it
    requests uris             the params of each method served; what a URI is
    results notifications sse what is sent
"""
