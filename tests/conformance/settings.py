"""The fixture site, where older clients are sent away in mid-call and come back: the suite tries that as well."""

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import MCP

MCP = {**MCP, "CUT_AFTER": 2.0}
