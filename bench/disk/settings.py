"""The fixture site with retention times of 0, so that all ended requests can be purged at once."""

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import MCP

MCP = {**MCP, "REQUEST_RETENTION_DAYS": 0, "AUDIT_RETENTION_DAYS": 0}
