"""The admin's pages: tools, requests to watch and cancel, what became of them, cancellations to audit, tokens.

Owns what administrators see and may do. Refuses to write a request or an audit row: it asks `lifecycle`. Imported by
Django's admin when a site has one.
"""

from mcp_app.admin import cancellations, dashboard, requests, tokens, tools

__all__ = ["cancellations", "dashboard", "requests", "tokens", "tools"]
