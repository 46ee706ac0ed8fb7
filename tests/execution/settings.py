"""The fixture site with tools that break a worker, and short limits for silent workers."""

import os

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import INSTALLED_APPS, MCP

INSTALLED_APPS = [*INSTALLED_APPS, "tests.execution"]
CELERY_WORKER_MAX_TASKS_PER_CHILD = int(os.environ.get("MCP_TEST_MAX_TASKS", "0")) or None
CELERY_TASK_TRACK_STARTED = True  # as a site may configure it for its own tasks
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = float(os.environ.get("MCP_TEST_SOFT_SHUTDOWN", "0"))
MCP = {
    **MCP,
    "HEARTBEAT_INTERVAL": 0.5,
    "SUPERVISION_INTERVAL": 0.5,
    "LOST_AFTER": 4.0,
    "REPUBLISH_AFTER": float(os.environ.get("MCP_TEST_REPUBLISH_AFTER", "10")),
    "DRAIN_SECONDS": float(os.environ.get("MCP_TEST_DRAIN", "1")),
    "PUBLIC_URL": "https://example.com",
}
