"""What the embedded server tells an application beyond ASGI, under which name in the scope's `extensions`."""

UNSENT_BYTES = "mcp_app.unsent_bytes"
"""A function without arguments: how many bytes of this response wait for its peer. Daphne's `send` never waits."""
