"""A site that installed none of the extras is served."""

import subprocess
import sys
from pathlib import Path

WITHOUT_EXTRAS = """
import sys
extras = "chartkick httpx jwt oauth2_provider oauthlib rest_framework opentelemetry prometheus_client psycopg redis"
for name in extras.split():
    sys.modules[name] = None
import django
django.setup()
from django.core.management import call_command
call_command("check")
from mcpsite import asgi
from mcp_app.execution import tasks
"""


def test_a_site_starts_without_any_of_the_packages_that_are_extras(tmp_path: Path) -> None:
    environment = {"DJANGO_SETTINGS_MODULE": "mcpsite.settings", "MCPSITE_DATA": str(tmp_path), "PYTHONPATH": "."}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
