"""The MCP protocol as pure values: bytes and headers in, values out; values in, bytes out.

In reading order:

    revisions      the protocol revisions, and which of them are served
    errors         error codes, their HTTP statuses, and `Rejection`
    jsonrpc        decode and encode one JSON-RPC message
    headers        read HTTP fields and compare them with the body; negotiate the media type
    metadata       `params._meta`, and the W3C trace context in it
    inbound        the checks of a request, over HTTP and over stdio; CORS
    requests       a request that passed the checks, and the params of each method
    tasks          the tasks extension
    formats        URIs, MIME types, times and other texts with a fixed form
    results        the results that the server sends
    notifications  the notifications that the server sends
    sse            server-sent events, and their ids in the legacy era
    legacy/        the revisions before 2026-07-28

Nothing here has side effects. There is no Django, Celery, Channels, clock, log or I/O: only the
standard library and `mcp_types`. Source: revision 2026-07-28.
"""
