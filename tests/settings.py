"""Settings of the basic tests: the example site's, with its data in a temporary folder."""

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec

if "MCPSITE_DATA" not in os.environ or os.environ.get("MCP_TESTS_OF", "") != os.environ.get("PYTEST_XDIST_WORKER", ""):
    os.environ["MCPSITE_DATA"] = tempfile.mkdtemp(prefix="mcp-tests-")
    os.environ["MCP_TESTS_OF"] = os.environ.get("PYTEST_XDIST_WORKER", "")
    atexit.register(shutil.rmtree, os.environ["MCPSITE_DATA"], ignore_errors=True)

from mcpsite.settings import *  # noqa: F403
from mcpsite.settings import DATA, DATABASES, INSTALLED_APPS, MCP

INSTALLED_APPS = [*INSTALLED_APPS, "oauth2_provider", "tests.derived.shop"]
if find_spec("push_notifications"):  # in CI's environment: another project, with viewsets of Django REST framework
    INSTALLED_APPS = [*INSTALLED_APPS, "rest_framework", "push_notifications"]
MCP = {**MCP, "ALLOW_ANONYMOUS": True, "AUTHENTICATOR": None}

if os.environ.get("MCP_TEST_USE_TZ") == "0":  # a site without time zones, far from UTC
    USE_TZ, TIME_ZONE = False, "America/New_York"

for alias, database in DATABASES.items():
    if database["ENGINE"].endswith("sqlite3"):
        # Creates its tables directly, which takes a tenth of the time of its migrations.
        MIGRATION_MODULES = {"oauth2_provider": None}
        # Several threads write. SQLite's in-memory databases reject a second writer instead of letting it wait.
        database["TEST"] = {"NAME": str(DATA / f"test-{alias}.sqlite3")}
        # No test simulates a power failure. Django closes both files after every test that commits, with a sync each.
        database["OPTIONS"]["init_command"] += " PRAGMA synchronous=OFF;"
    elif database["ENGINE"].endswith("postgresql"):
        database["OPTIONS"] = {"options": "-c synchronous_commit=off"}  # for the same reason
