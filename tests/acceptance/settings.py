"""The fixture site with shorter patience, so that what is lost is found lost in seconds; nothing else is changed."""

import os

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import MCP

if spans := os.environ.get("MCP_TEST_SPANS"):
    from tests.acceptance.tracing import export_to

    export_to(spans)

MCP = {
    **MCP,
    "HEARTBEAT_INTERVAL": 0.5,
    "SUPERVISION_INTERVAL": 0.5,
    "LOST_AFTER": float(os.environ.get("MCP_TEST_LOST_AFTER", "3")),
    "DRAIN_SECONDS": 1.0,
    "HARD_GRACE": 1.0,
    "SSE_AFTER": 0.3,
    "KEEP_ALIVE": 1.0,
    "SESSIONLESS_DISCONNECT_CANCELS": "MCP_TEST_SESSIONLESS_GOES_ON" not in os.environ,
}
