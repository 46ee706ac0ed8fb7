"""The examples of `docs/how-to/testing.md`, run in a site like a reader's, and sites that do not use the client."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, snippets

TOOLS, *TESTS = [block.text for block in snippets("how-to/testing.md")]
SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).parent
SECRET_KEY = "secret"
INSTALLED_APPS = [
    "django.contrib.auth", "django.contrib.contenttypes", "channels", "django_celery_results", "mcp_app", "shop"
]
ASGI_APPLICATION = "site_asgi.application"
ROOT_URLCONF = "site_urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    alias: {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / f"{alias}.sqlite3", "TEST": {"NAME": TEST}}
    for alias, TEST in {TESTS}.items()
}
DATABASE_ROUTERS = ["mcp_app.databases.MCPRouter"]
CELERY_RESULT_BACKEND = "django-db"
MCP = {"DATABASE": "mcp", "ENDPOINTS": {"default": {"PATH": "/tools/mcp", "ALLOW_ANONYMOUS": False}}}
"""
ASGI = """
from django.core.asgi import get_asgi_application

from mcp_app.routing import mcp_application

application = mcp_application(get_asgi_application())
"""
CELERY = """
from celery import Celery

app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with the page's tools."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("import site_celery\n")
    (tmp_path / "shop" / "mcp_tools.py").write_text(TOOLS)
    (tmp_path / "site_asgi.py").write_text(ASGI)
    (tmp_path / "site_celery.py").write_text(CELERY)
    (tmp_path / "site_urls.py").write_text("urlpatterns = []\n")
    return tmp_path


def said_of(
    site: Path,
    name: str,
    text: str,
    *options: str,
    shared: bool,
    plugins: tuple[str, ...],
    status: int = 0,
) -> str:
    """Run pytest on a file of tests, and return its output. With `shared`, other processes can open the databases."""
    names = {alias: str(site / f"test-{alias}.sqlite3") if shared else None for alias in ("default", "mcp")}
    (site / "site_settings.py").write_text(SETTINGS.replace("{TESTS}", repr(names)))
    (site / f"{name}.py").write_text(text)
    # Without this project's plugin for async tests, which warns if a site has not configured it.
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    command += [f"{name}.py", *options, *(word for plugin in plugins for word in ("-p", plugin))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MCPSITE_", "DJANGO_"))}
    environment |= {"PYTHONPATH": str(ROOT)}
    if "django" not in name:
        environment["DJANGO_SETTINGS_MODULE"] = "site_settings"
    ran = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.site
@pytest.mark.parametrize("shared", [False, True], ids=["in memory", "in files"])
def test_every_example_of_the_page_is_true(site: Path, shared: bool) -> None:
    blocks = [block for block in TESTS if shared or "mcp_live_client" not in block]
    said = said_of(site, "test_page", "\n\n".join(blocks), shared=shared, plugins=("mcp_app.testing.plugin",))
    assert f"{sum(block.count('def test_') for block in blocks)} passed" in said


@pytest.mark.site
def test_a_live_site_says_what_it_lacks(site: Path) -> None:
    text = "def test_it(mcp_live_client):\n    pass\n"
    said = said_of(site, "test_live", text, shared=False, plugins=("mcp_app.testing.plugin",), status=1)
    assert """DATABASES['default']["TEST"] = {"NAME": """ in said


@pytest.mark.site
def test_a_live_site_takes_the_tables_as_the_tests_made_them(site: Path) -> None:
    text = 'def test_it(mcp_live_client):\n    assert mcp_live_client.call("add", a=1, b=2).structured == 3\n'
    said_of(site, "test_live", text, "--nomigrations", shared=True, plugins=("mcp_app.testing.plugin",))


@pytest.mark.site
def test_without_a_site_only_its_tests_fail(site: Path) -> None:
    text = "def test_it(mcp_client):\n    pass\n\n\ndef test_other():\n    pass\n"
    said = said_of(site, "test_no_django", text, shared=False, plugins=("mcp_app.testing.plugin",), status=1)
    assert "settings are not configured" in said
    assert "1 passed, 1 error" in said


@pytest.mark.site
def test_a_run_that_does_not_use_it_loads_nothing_of_it(site: Path) -> None:
    text = """
import sys


def test_nothing_is_loaded():
    loaded = {name for name in sys.modules if name.partition(".")[0] in ("django", "celery", "channels", "pydantic")}
    loaded |= {name for name in sys.modules if name.startswith("mcp_app.")}
    assert loaded == {"mcp_app.testing", "mcp_app.testing.plugin"}
"""
    said_of(site, "test_no_django", text, shared=False, plugins=("no:django", "mcp_app.testing.plugin"))
