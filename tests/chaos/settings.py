"""The fixture site with the chaos tools, and with timeouts that are short enough to expire within a run."""

from tests.acceptance.settings import *  # noqa: F403
from tests.acceptance.settings import INSTALLED_APPS, MCP

INSTALLED_APPS = [*INSTALLED_APPS, "tests.chaos"]
MCP = {
    **MCP,
    "LOST_AFTER": 4.0,
    "REPUBLISH_AFTER": 3.0,
    "ABANDONED_AFTER": 4.0,
    "MAX_QUEUE_SECONDS": 40.0,
    "MAX_INPUT_SECONDS": 4.0,
    "DEFAULT_TIME_LIMIT": 20.0,
    "TASK_POLL_INTERVAL": 0.2,
    "MAX_LISTEN_STREAMS_PER_PRINCIPAL": 10,
    "MAX_OPEN_TASKS_PER_PRINCIPAL": 1_000,
}
