"""The example site with the tools of docs/how-to/asking.md. It logs calls, and its limits allow slow processes."""

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import INSTALLED_APPS, MCP

INSTALLED_APPS = [*INSTALLED_APPS, "tests.docs.shop"]
MCP = {**MCP, "LOST_AFTER": 600.0, "PUBLISH_TIMEOUT": 60.0}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"calls": {"class": "logging.StreamHandler"}},
    "loggers": {"mcp_app.calls": {"handlers": ["calls"], "level": "INFO", "propagate": False}},
}
