"""A site with one database, on an engine that this app does not support."""

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import DATABASES, MCP

DATABASES = {"default": {**DATABASES["default"], "ENGINE": "tests.management.unserved_engine"}}
DATABASE_ROUTERS: list[str] = []
MCP = {**MCP, "DATABASE": "default"}
