"""System checks: what a site's set-up lacks or gets wrong, with the lines to add.

Run by every management command, and so by `mcp serve`. They read settings and import what settings name; they refuse
to use a database or a broker, so that they also help where none can be reached.
"""

from mcp_app.checks import (
    asgi,
    authentication,
    celery,
    channels,
    databases,
    logins,
    middleware,
    oauth,
    redaction,
    toolkit,
    values,
)

__all__ = [
    "asgi",
    "authentication",
    "celery",
    "channels",
    "databases",
    "logins",
    "middleware",
    "oauth",
    "redaction",
    "toolkit",
    "values",
]
