"""Settings of a live site: those of the tested site, with the test's databases, the embedded broker and short timeouts.

The environment names the tested site. `live_site` sets it.
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


class _MadeByTheTests:
    """Turns migrations off in every app, because the tests have created the tables."""

    def __contains__(self, app: object) -> bool:
        return True

    def __getitem__(self, app: str) -> None:
        return None


MIGRATION_MODULES = _MadeByTheTests()
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
    "SUPERVISION_INTERVAL": 86_400.0,  # it would seal the audit, and tests could not flush sealed rows
}

register()
