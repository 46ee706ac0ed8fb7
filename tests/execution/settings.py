"""The fixture site with the tools that these tests need to break a worker, and little patience with silent ones."""

import os

from tests.everything.settings import *  # noqa: F403
from tests.everything.settings import INSTALLED_APPS, MCP

INSTALLED_APPS = [*INSTALLED_APPS, "tests.execution"]
CELERY_WORKER_MAX_TASKS_PER_CHILD = int(os.environ.get("MCP_TEST_MAX_TASKS", "0")) or None
CELERY_TASK_TRACK_STARTED = True  # as a site may want it of its own tasks
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = float(os.environ.get("MCP_TEST_SOFT_SHUTDOWN", "0"))
MCP = {
    **MCP,
    "HEARTBEAT_INTERVAL": 0.5,
    "SUPERVISION_INTERVAL": 0.5,
    "LOST_AFTER": 4.0,
    "DRAIN_SECONDS": float(os.environ.get("MCP_TEST_DRAIN", "1")),
    "PUBLIC_URL": "https://example.com",
}
