"""The fixture site with `CUT_AFTER`, so that legacy streams are cut during a call, which the suite also tests."""

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import MCP

MCP = {**MCP, "CUT_AFTER": 2.0}
