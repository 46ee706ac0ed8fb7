"""What a site gets that makes only the two edits: a database, a Celery app, a broker. And what it keeps of its own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.site_setup.conftest import Site

SETTINGS: Final = "mysite/settings.py"
DESCRIBE: Final = """
import json
from celery import current_app
from django.db import router
from mcp_app.conf import settings
from mcp_app.models import Tool
conf = current_app.conf
print(json.dumps({
    "app": current_app.main,
    "broker": conf.broker_url,
    "folder": conf.broker_transport_options.get("folder"),
    "results": conf.result_backend,
    "database": settings.DATABASE,
    "writes": router.db_for_write(Tool),
    "reads": router.db_for_read(Tool),
}))
"""
REPLICAS: Final = """
class Replicas:
    def db_for_read(self, model, **hints):
        return "replica"

    def db_for_write(self, model, **hints):
        return "default"
"""
SITES_TESTS: Final = """
from django.contrib.auth import get_user_model
from django.test import TestCase, TransactionTestCase
from mcp_app.models import Tool

class WithTools(TestCase):
    databases = {"default", "mcp"}

    def test_both_databases_have_their_tables(self):
        self.assertFalse(get_user_model().objects.exists() or Tool.objects.exists())

class WithoutTools(TestCase):
    def test_users_are_deleted_without_a_query_to_the_other_database(self):
        get_user_model().objects.create_user("ada").delete()

class Flushed(TransactionTestCase):
    def test_flushing_leaves_the_other_database_alone(self):
        get_user_model().objects.create_user("ada")
"""


LIVE_TEST: Final = """
def test_the_tool_is_called_over_http(mcp_live_client):
    assert mcp_live_client.call("greet", name="Ada").text.startswith("Hello Ada")
"""


def describe(site: Site, **environment: str) -> dict[str, Any]:
    """Return what a process of the site uses."""
    said: dict[str, Any] = json.loads(manage(site, "shell", "--verbosity=0", "-c", DESCRIBE, **environment))
    return said


def manage(site: Site, *arguments: str, **environment: str) -> str:
    return site.run(sys.executable, "manage.py", *arguments, **environment)


def add_settings(site: Site, lines: str) -> None:
    with (site.folder / SETTINGS).open("a") as file:
        file.write(lines)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith("__")}


def test_two_edits_are_enough(first_site: Site) -> None:
    folder = first_site.folder
    assert describe(first_site) == {
        "app": "mcp_app",
        "broker": "mcpfs://",
        "folder": str(folder / "db-mcp-broker"),
        "results": None,
        "database": "mcp",
        "writes": "mcp",
        "reads": "mcp",
    }
    assert "db-mcp.sqlite3" not in names(folder)  # starting a process creates nothing
    assert "no issues" in manage(first_site, "check", "--fail-level", "WARNING")

    manage(first_site, "migrate", "--verbosity=0")
    assert (folder / "db-mcp.sqlite3").stat().st_mode & 0o077 == 0
    assert manage(first_site, "mcp", "tools", "--json")
    manage(first_site, "migrate", "--check")
    manage(first_site, "migrate", "--check", "--database", "mcp")


def test_checks_create_no_database(first_site: Site) -> None:
    manage(first_site, "check", "--database", "mcp")  # Django 6.1 checks all databases without the option too
    assert "db-mcp.sqlite3" not in names(first_site.folder)


def test_a_database_that_was_opened_before_it_is_migrated_is_readable_by_its_user_alone(first_site: Site) -> None:
    opens = "from django.db import connections; connections['mcp'].ensure_connection()"
    manage(first_site, "shell", "--verbosity=0", "-c", opens)
    file = first_site.folder / "db-mcp.sqlite3"
    file.chmod(0o644)  # as with the usual umask
    manage(first_site, "migrate", "--verbosity=0")
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o640)  # a choice of the site, which later migrations keep
    manage(first_site, "migrate", "--verbosity=0")
    assert file.stat().st_mode & 0o777 == 0o640


def test_sites_own_tests_touch_no_file_of_the_site(first_site: Site) -> None:
    (first_site.folder / "greetings/tests.py").write_text(SITES_TESTS)
    before = names(first_site.folder)
    manage(first_site, "test")
    assert names(first_site.folder) == before


def test_a_live_site_of_the_tests_uses_files_beside_each_other(first_site: Site) -> None:
    add_settings(first_site, 'DATABASES["default"]["TEST"] = {"NAME": BASE_DIR / "test.sqlite3"}\n')
    (first_site.folder / "pytest.ini").write_text("[pytest]\nDJANGO_SETTINGS_MODULE = mysite.settings\n")
    (first_site.folder / "greetings/test_live.py").write_text(LIVE_TEST)
    plugin = ("-p", "mcp_app.testing.plugin")  # an installed app is found without this option
    said = first_site.run(sys.executable, "-m", "pytest", "-q", *plugin, "greetings/test_live.py")
    assert "1 passed" in said
    assert not list(first_site.folder.glob("*.sqlite3"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ('MCP = {"DATABASE": "default"}', {"database": "default", "writes": "default"}),
        ('DATABASES["mcp"] = {**DATABASES["default"], "NAME": "other.sqlite3"}', {"database": "default"}),
        ('DATABASES["default"]["NAME"] = ":memory:"', {"database": "default", "folder": "{site}/mcp-broker"}),
        (
            'DATABASES["default"] = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}',
            {"database": "default", "folder": "{site}/mcp-broker"},
        ),
        ('DATABASES["default"]["NAME"] = str(BASE_DIR / "shop.db")', {"folder": "{site}/shop-mcp-broker"}),
        ('CELERY_BROKER_URL = "redis://broker"', {"app": "mcp_app", "broker": "redis://broker", "folder": None}),
        ('INSTALLED_APPS += ["django_celery_results"]', {"results": "django-db"}),
        ('INSTALLED_APPS += ["django_celery_results"]\nCELERY_RESULT_BACKEND = "rpc://"', {"results": "rpc://"}),
        ("import os\nBASE_DIR = os.path.dirname(os.path.dirname(__file__))", {"folder": "{site}/db-mcp-broker"}),
        (
            'DATABASE_ROUTERS = ["greetings.routers.Replicas"]\n'
            'DATABASES |= {name: {**DATABASES["default"]} for name in ("replica",)}',
            {"writes": "mcp", "reads": "mcp"},
        ),
        (
            'DATABASE_ROUTERS = ["greetings.routers.Replicas", "mcp_app.databases.MCPRouter"]\n'
            'DATABASES |= {name: {**DATABASES["default"]} for name in ("replica",)}',
            {"writes": "mcp", "reads": "mcp"},
        ),
    ],
)
def test_sites_settings_come_first(first_site: Site, settings: str, expected: dict[str, str | None]) -> None:
    (first_site.folder / "greetings/routers.py").write_text(REPLICAS)
    add_settings(first_site, f"{settings}\n")
    used = describe(first_site)
    wanted = {name: value and value.format(site=first_site.folder) for name, value in expected.items()}
    assert {name: used[name] for name in wanted} == wanted


def test_broker_of_the_environment_comes_first(first_site: Site) -> None:
    used = describe(first_site, CELERY_BROKER_URL="redis://broker")
    assert (used["broker"], used["folder"]) == ("redis://broker", None)


def test_site_with_a_celery_app_keeps_it(chosen_site: Site) -> None:
    used = describe(chosen_site)
    assert used["app"] == "mysite"
    assert used["folder"] == str(chosen_site.folder / "broker")
    assert "no issues" in manage(chosen_site, "check", "--fail-level", "WARNING")


def test_site_with_two_celery_apps_is_told_that_threads_would_use_both(chosen_site: Site) -> None:
    code = chosen_site.folder / "mysite/celery.py"
    code.write_text(code.read_text() + 'second = Celery("second", broker="redis://broker")\n')
    assert "mcp_app.W045" in manage(chosen_site, "check")
    code.write_text(code.read_text() + "second.set_default()\n")
    assert "W045" not in manage(chosen_site, "check")


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        (lambda text: text, "mysite.asgi.application"),
        (lambda text: text.replace("mysite.wsgi.", "mysite.deploy.wsgi."), "mysite.deploy.asgi.application"),
        (lambda text: f"{text}\ndel WSGI_APPLICATION\n", "mysite.asgi.application"),
        (lambda text: f'{text}\nASGI_APPLICATION = "mysite.routing.application"\n', "mysite.routing.application"),
    ],
    ids=["startproject", "wsgi elsewhere", "no wsgi", "asgi"],
)
def test_asgi_application_is_found(first_site: Site, edit: Callable[[str], str], path: str) -> None:
    file = first_site.folder / SETTINGS
    file.write_text(edit(file.read_text()))
    print_path = "from mcp_app.routing import asgi_path; print(asgi_path())"
    said = manage(first_site, "shell", "--verbosity=0", "-c", print_path)
    assert said.strip() == path
