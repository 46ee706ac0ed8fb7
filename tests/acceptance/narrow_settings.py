"""The acceptance site with settings from the environment: `MCP_TEST_SETTINGS` is a JSON object that updates `MCP`."""

import json
import os

from tests.acceptance.settings import *  # noqa: F403
from tests.acceptance.settings import MCP

MCP = {**MCP, **json.loads(os.environ.get("MCP_TEST_SETTINGS", "{}"))}
