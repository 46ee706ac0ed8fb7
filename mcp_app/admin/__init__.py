"""The admin's pages: tools to manage, requests to watch and cancel, what became of them, sessions and listen streams to
see and close, cancellations to audit, tokens to make and revoke.

Owns what administrators see and may do. Refuses to write a request or an audit row: it asks `lifecycle`. Imported by
Django's admin when a site has one.
"""

from mcp_app.admin import cancellations, dashboard, listen_streams, requests, sessions, tokens, tools

__all__ = ["cancellations", "dashboard", "listen_streams", "requests", "sessions", "tokens", "tools"]
