"""`mcp install` finds the two edits in the usual layouts of projects, makes them, and undoes them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from mcp_app.management import installing
from mcp_app.management.installing import NoSiteError, find_edits, run
from tests.docs.pages import snippet

WRAP = "from mcp_app.routing import mcp_application\n\napplication = mcp_application(application)\n"
ROUTER = "from mcp_app.routing import mcp_application\n\nrouter = mcp_application(router)\n"


@pytest.fixture(autouse=True)
def no_settings_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Returns the folder of a project that `startproject` has made."""
    call_command("startproject", "mysite", str(tmp_path))
    return tmp_path


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def manage(module: str) -> str:
    return f'os.environ.setdefault("DJANGO_SETTINGS_MODULE", "{module}")\n'


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}


def edits(root: Path) -> dict[str, str]:
    return {str(edit.file.relative_to(root)): edit.lines for edit in find_edits(root)}


def test_a_new_project_gets_two_edits_and_works(project: Path) -> None:
    before = contents(project)
    said: list[str] = []
    run(project, said.append)
    assert contents(project) == before
    [shown] = re.findall(r"install\n(.*)", snippet("reference/command-line.md#installing").text, re.DOTALL)
    assert "\n".join(said) == shown.strip()

    run(project, said.append, write=True)
    python = [sys.executable, "manage.py"]
    checked = subprocess.run(
        [*python, "check", "--fail-level", "WARNING"],
        cwd=project,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no issues" in checked.stdout


def test_edits_are_made_once_and_undone_without_a_trace(project: Path) -> None:
    before = contents(project)
    run(project, [].append, write=True)
    made = contents(project)
    run(project, [].append, write=True)
    assert contents(project) == made
    run(project, [].append, undo=True)
    assert contents(project) == before
    run(project, [].append, undo=True)
    assert contents(project) == before


@pytest.mark.parametrize(
    "named",
    [
        'INSTALLED_APPS = [\n    "shop",\n    "mcp_app",\n]\n',
        'INSTALLED_APPS = ["shop"]\nINSTALLED_APPS += ["mcp_app", "other"]\n',
        'APPS = ["shop"]\nINSTALLED_APPS: list[str] = [*APPS, "mcp_app"]\n',
    ],
)
def test_a_site_that_names_the_app_in_its_own_words_keeps_them(tmp_path: Path, named: str) -> None:
    wrapped = "from mcp_app.routing import mcp_application\napplication = mcp_application(get_asgi_application())\n"
    files = {"manage.py": manage("s"), "s.py": f'{named}ASGI_APPLICATION = "a.application"\n', "a.py": wrapped}
    root = write(tmp_path, files)
    before = contents(root)
    run(root, [].append, write=True)
    run(root, [].append, undo=True)
    assert contents(root) == before


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {
                "manage.py": manage("config.settings.local"),
                "config/settings/local.py": "from .base import *\nfrom .base import INSTALLED_APPS\nDEBUG = True\n",
                "config/settings/base.py": 'INSTALLED_APPS = A + B\nWSGI_APPLICATION = "config.wsgi.application"\n',
                "config/asgi.py": "async def application(scope, receive, send): ...\n",
            },
            {"config/settings/base.py": 'INSTALLED_APPS += ["mcp_app"]\n', "config/asgi.py": WRAP},
            id="settings in a package",
        ),
        pytest.param(
            {
                "manage.py": manage("config.settings.local"),
                "config/settings/local.py": (
                    "from .base import *\nfrom .base import INSTALLED_APPS\n"
                    'INSTALLED_APPS = ["first", *INSTALLED_APPS]\nINSTALLED_APPS += ["last"]\n'
                ),
                "config/settings/base.py": 'INSTALLED_APPS = ("a",)\nROOT_URLCONF = "config.urls"\n',
                "config/asgi.py": "application = None\n",
            },
            {"config/settings/base.py": 'INSTALLED_APPS += ("mcp_app",)\n', "config/asgi.py": WRAP},
            id="a list that other settings extend",
        ),
        pytest.param(
            {
                "manage.py": manage("shop.settings"),
                "shop/settings/__init__.py": "from shop.settings.base import *\n",
                "shop/settings/base.py": 'INSTALLED_APPS: tuple = ("a",)\nROOT_URLCONF = "shop.urls"\n',
            },
            {"shop/settings/base.py": 'INSTALLED_APPS += ("mcp_app",)\n', "shop/asgi.py": "..."},
            id="a tuple, and WSGI only",
        ),
        pytest.param(
            {
                "manage.py": manage("site1.settings"),
                "site1/settings.py": 'INSTALLED_APPS = []\nASGI_APPLICATION = "site1.routing.router"\n',
                "site1/routing.py": "router = ProtocolTypeRouter({})\n",
            },
            {
                "site1/settings.py": 'INSTALLED_APPS += ["mcp_app"]\n',
                "site1/routing.py": ROUTER,
            },
            id="routers of Channels",
        ),
    ],
)
def test_edits_go_where_the_project_has_its_settings(
    tmp_path: Path, files: dict[str, str], expected: dict[str, str]
) -> None:
    found = edits(write(tmp_path, files))
    assert list(found) == list(expected)
    for name, lines in expected.items():
        assert lines in (found[name], "...")


def test_a_site_with_wsgi_only_gets_an_asgi_application(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "manage.py": manage("mysite.settings"),
            "mysite/settings.py": 'INSTALLED_APPS = []\nWSGI_APPLICATION = "mysite.wsgi.application"\n',
        },
    )
    before = contents(root)
    run(root, [].append, write=True)
    made = (root / "mysite/asgi.py").read_text().replace("mysite.settings", "tests.settings")
    run(root, [].append, undo=True)
    assert contents(root) == before

    names: dict[str, object] = {}
    exec(compile(made, "asgi.py", "exec"), names)
    assert callable(names["application"])


def test_a_new_asgi_application_has_the_settings_of_wsgi(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "manage.py": manage("mysite.settings.dev"),
            "mysite/settings/dev.py": 'INSTALLED_APPS = []\nWSGI_APPLICATION = "mysite.wsgi.application"\n',
            "mysite/wsgi.py": manage("mysite.settings.production"),
        },
    )
    assert manage("mysite.settings.production") in edits(root)["mysite/asgi.py"]


@pytest.mark.parametrize(
    ("files", "fact"),
    [
        ({}, "manage.py"),
        ({"manage.py": "pass"}, "DJANGO_SETTINGS_MODULE"),
        ({"manage.py": manage("gone.settings")}, "gone.settings"),
        ({"manage.py": manage("s"), "s.py": "import apps"}, "INSTALLED_APPS += ['mcp_app']"),
        (
            {"manage.py": manage("s"), "s.py": 'INSTALLED_APPS = []\nASGI_APPLICATION = "far.away.application"'},
            "mcp_application(application)",
        ),
    ],
)
def test_what_cannot_be_found_is_named_with_the_lines_to_add(tmp_path: Path, files: dict[str, str], fact: str) -> None:
    root = write(tmp_path, files)
    before = contents(root)
    with pytest.raises(NoSiteError, match=re.escape(fact)):
        run(root, [].append, write=True)
    assert contents(root) == before


def test_the_program_needs_no_app_in_the_settings(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "argv", ["django-mcp-app", "install", "--write"])
    installing.main()
    assert 'INSTALLED_APPS += ["mcp_app"]' in (project / "mysite/settings.py").read_text()
    assert "mysite/asgi.py" in capsys.readouterr().out

    monkeypatch.chdir(project.parent)
    with pytest.raises(SystemExit, match=r"manage\.py"):
        installing.main()
