"""The example site's settings with the tools of the peers, and with limits that do not reject the load."""

import os

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS, MCP

PLENTY = 100_000

INSTALLED_APPS = [*(app for app in INSTALLED_APPS if app != "mcpsite"), "bench.peers.site"]
ROOT_URLCONF = "bench.peers.site.urls"
MCP = {
    **MCP,
    "SERVER_NAME": "ours",
    "ALLOW_ANONYMOUS": True,
    "AUTHENTICATOR": os.environ.get("MCPSITE_AUTHENTICATOR"),
    "MAX_OPEN_REQUESTS_PER_PRINCIPAL": PLENTY,
    "MAX_OPEN_REQUESTS": PLENTY,
    "MAX_QUEUED_REQUESTS": PLENTY,
    "MAX_CONNECTIONS": PLENTY,
    "REQUEST_BURST": PLENTY,
    "REQUEST_RATE": float(PLENTY),
    "MAX_LISTEN_STREAMS": PLENTY,
    "MAX_LISTEN_STREAMS_PER_PRINCIPAL": PLENTY,
}
