"""Names in the `extensions` of an ASGI scope that only the embedded server sets."""

UNSENT_BYTES = "mcp_app.unsent_bytes"
"""A function that returns how many bytes of this response the client has not read yet.

Daphne's `send` never waits.
"""
