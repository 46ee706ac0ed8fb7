"""The settings of a live site: the tested site's own, with the test's databases, the embedded broker, short endings.

Refuses to be anybody else's: the environment says which site, by `live_site`.
"""

import json
import os
from importlib import import_module
from typing import Any

from mcp_app.embedded.broker import register

_told: dict[str, Any] = json.loads(os.environ["MCP_TESTING_SITE"])
_site = import_module(_told["settings"])
globals().update({name: getattr(_site, name) for name in dir(_site) if name.isupper()})

DATABASES: dict[str, dict[str, Any]] = {
    alias: {**database, "NAME": _told["databases"].get(alias, database.get("NAME"))}
    for alias, database in _site.DATABASES.items()
}
DEBUG = False
CELERY_BROKER_URL = "mcpfs://"
CELERY_BROKER_TRANSPORT_OPTIONS = {"folder": _told["broker"]}
_callers = {"ALLOW_ANONYMOUS": True, "AUTHENTICATOR": "mcp_app.auth.tokens.bearer"}
_endpoints = getattr(_site, "MCP", {}).get("ENDPOINTS", {})
MCP: dict[str, Any] = {
    **getattr(_site, "MCP", {}),
    **_callers,
    "ENDPOINTS": {name: {**own, **_callers} for name, own in _endpoints.items()},
    "ALLOWED_HOSTS": ["127.0.0.1"],
    "DRAIN_SECONDS": 0.1,
    "SUPERVISION_INTERVAL": 86_400.0,  # it seals the audit, and what is sealed no test could flush
}

register()
