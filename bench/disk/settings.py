"""The fixture site, which keeps nothing longer than it must: all that has ended may be purged at once."""

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import MCP

MCP = {**MCP, "REQUEST_RETENTION_DAYS": 0, "AUDIT_RETENTION_DAYS": 0}
