"""The fixture site with shorter times, so that lost processes are detected in seconds."""

import json
import os

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import INSTALLED_APPS, MCP

if "MCP_TEST_ELSEWHERE" in os.environ:
    INSTALLED_APPS = [*INSTALLED_APPS, "tests.acceptance.elsewhere.Elsewhere"]

if layer := os.environ.get("MCP_TEST_LAYER"):
    from mcpsite.settings import CHANNEL_LAYERS

    CHANNEL_LAYERS["default"]["CONFIG"] |= json.loads(layer)

if spans := os.environ.get("MCP_TEST_SPANS"):
    from tests.acceptance.tracing import export_to

    export_to(spans)

MCP = {
    **MCP,
    "HEARTBEAT_INTERVAL": 0.5,
    "SUPERVISION_INTERVAL": 0.5,
    "LOST_AFTER": float(os.environ.get("MCP_TEST_LOST_AFTER", "3")),
    "VANISHED_AFTER": float(os.environ.get("MCP_TEST_VANISHED_AFTER", "30")),
    "REPUBLISH_AFTER": float(os.environ.get("MCP_TEST_REPUBLISH_AFTER", "10")),
    "DATABASE_TIMEOUT": float(os.environ.get("MCP_TEST_DATABASE_TIMEOUT", "15")),
    "ENDING_TIMEOUT": float(os.environ.get("MCP_TEST_ENDING_TIMEOUT", "600")),
    "DRAIN_SECONDS": 1.0,
    "HARD_GRACE": 1.0,
    "SSE_AFTER": 0.3,
    "KEEP_ALIVE": 1.0,
    "MAX_QUEUE_SECONDS": float(os.environ.get("MCP_TEST_MAX_QUEUE_SECONDS", "600")),
    "QUEUE_ALARM_AFTER": float(os.environ.get("MCP_TEST_QUEUE_ALARM", "60")),
    "ABANDONED_AFTER": float(os.environ.get("MCP_TEST_ABANDONED_AFTER", "120")),
    "SESSIONLESS_DISCONNECT_CANCELS": "MCP_TEST_SESSIONLESS_GOES_ON" not in os.environ,
}
