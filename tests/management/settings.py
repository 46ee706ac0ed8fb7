"""The fixture site with a short shutdown, and a tool that not every user may call."""

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import INSTALLED_APPS, MCP

INSTALLED_APPS = [*INSTALLED_APPS, "tests.management.registry"]
MCP = {**MCP, "DRAIN_SECONDS": 0.3}
