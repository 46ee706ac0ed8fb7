"""System checks: missing or wrong settings of a site, with the lines to add.

    values          `MCP`: its names, types and values
    endpoints       `MCP["ENDPOINTS"]`
    asgi            `ASGI_APPLICATION`, and whether `runserver` serves MCP
    databases       `DATABASES` and the routers
    celery          the Celery app, its broker and its workers
    channels        `CHANNEL_LAYERS`
    authentication  access, and the use of the site's login for it
    oauth           `MCP["OAUTH_…"]`: tokens of an authorization server
    toolkit         the site as its own authorization server
    limits          the rates of tools, and the cache that counts calls
    admin           whether the site's admin has the pages of this app
    functions       functions that settings name: middleware, redaction and others
    lines           the lines of settings that the hints ask for

Every management command runs these checks, and so does `mcp serve`. The checks read settings and
import the modules that settings name. They use neither a database nor the broker, so that they also
help when neither can be reached.

While a check reports an error, Django does not run `migrate`, `runserver` and the site's own
commands. So a check reports an error only in four cases: no call could work, calls could not be
supervised, the wrong callers would have access, or a value of `MCP` cannot be used. Anything that a
site may have set up on purpose is a warning at most.
"""

from mcp_app.checks import (
    admin,
    asgi,
    authentication,
    celery,
    channels,
    databases,
    endpoints,
    functions,
    limits,
    oauth,
    toolkit,
    values,
)

__all__ = [
    "admin",
    "asgi",
    "authentication",
    "celery",
    "channels",
    "databases",
    "endpoints",
    "functions",
    "limits",
    "logins",
    "middleware",
    "oauth",
    "redaction",
    "toolkit",
    "values",
]
