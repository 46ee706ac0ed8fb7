"""The example site with this app, anonymous access, and limits that are wide enough for measurements.

`MCPSITE_*` environment variables select the engines and debug mode, as in `mcpsite.settings`.
"""

import os

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS, MCP

# Only `runserver` needs the app `daphne`, which takes a quarter of a second to load in each of the tests' processes.
INSTALLED_APPS = [*(app for app in INSTALLED_APPS if app != "daphne"), "tests.everything"]
MCP = {
    **MCP,
    "SERVER_NAME": "everything",
    "SERVER_TITLE": "mcp_app fixture site",
    "ALLOW_ANONYMOUS": True,
    "AUTHENTICATOR": os.environ.get("MCPSITE_AUTHENTICATOR"),
    "MAX_OPEN_REQUESTS_PER_PRINCIPAL": 10_000,
    "MAX_OPEN_REQUESTS": 10_000,
    "MAX_QUEUED_REQUESTS": 10_000,
    "REQUEST_BURST": 2_000,
    "REQUEST_RATE": 1_000.0,
    "MAX_LISTEN_STREAMS_PER_PRINCIPAL": 1_024,
}
