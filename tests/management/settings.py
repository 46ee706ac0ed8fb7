"""The fixture site with a short farewell."""

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import MCP

MCP = {**MCP, "DRAIN_SECONDS": 0.3}
