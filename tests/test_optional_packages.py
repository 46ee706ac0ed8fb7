"""A site starts without the packages of the extras. The extra `redis` has all requirements of kombu's transport."""

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"

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
from mcp_app.execution import worker
"""


def test_a_site_starts_without_any_of_the_packages_that_are_extras(tmp_path: Path) -> None:
    environment = {"DJANGO_SETTINGS_MODULE": "mcpsite.settings", "MCPSITE_DATA": str(tmp_path), "PYTHONPATH": "."}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def extras_of(requirements: Iterable[Requirement]) -> Iterator[Requirement]:
    """Yield requirements, and the requirements of the extras that they name. Packages with extras must be installed."""
    for requirement in requirements:
        yield requirement
        for extra in requirement.extras:
            ours = [Requirement(text) for text in requires(requirement.name) or ()]
            yield from extras_of(each for each in ours if each.marker and each.marker.evaluate({"extra": extra}))


def test_the_extra_redis_installs_what_kombus_transport_for_redis_requires() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    installed = {(each.name, str(each.specifier)) for each in extras_of(map(Requirement, extras["redis"]))}
    required = {(each.name, str(each.specifier)) for each in extras_of([Requirement("kombu[redis]")])}
    assert "redis" in {name for name, _ in required}
    assert required - {("kombu", "")} <= installed
