"""A site with transactions around its calls, middleware, and two languages."""

from tests.execution.settings import *  # noqa: F403
from tests.execution.settings import DATABASES, MCP

DATABASES["default"]["ATOMIC_REQUESTS"] = True
TIME_ZONE = "Europe/Vienna"
LANGUAGE_CODE = "en"
MCP = {
    **MCP,
    "MIDDLEWARE": [
        "tests.execution.surroundings.Outer",
        "tests.execution.surroundings.not_used",
        "tests.execution.surroundings.inner",
    ],
}
