"""Follows docs/how-to/adding.md literally, in an empty folder and a new virtual environment.

Three values are replaced: the path of the checkout, the port 8000, and the name of the user who gets a key.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.site_setup import steps
from tests.site_setup.conftest import Site
from tests.site_setup.steps import File, Shell
from tests.support.site.programs import Program

PATIENCE = 300.0
STARTING = 120.0
STOPPING = 60.0
SERVE = "python manage.py mcp serve"
ACTIVATE = ". .venv/bin/activate\n"
NO_ISSUES = "System check identified no issues (0 silenced)."
OWN_TESTS = """
from django.contrib.auth import get_user_model
from django.test import TestCase
from mcp_app.models import Tool

class Test(TestCase):
    databases = {"default", "mcp"}

    def test_both_databases_have_their_tables(self):
        self.assertFalse(get_user_model().objects.exists() or Tool.objects.exists())
"""
KEY = "a-key-that-nobody-guesses"


def shell(site: Site, text: str, **changes: str) -> Program:
    return site.start("bash", "-euc", text, **changes)


def done(program: Program, says: str = "") -> str:
    """Wait until a program has succeeded, and return its output."""
    assert program.wait(PATIENCE) == 0, program.output()
    assert says in program.output()
    return program.output()


def served(site: Site, **changes: str) -> tuple[Program, int]:
    """Start the site, wait until it is ready, and return the program and its port."""
    program = shell(site, f"{ACTIVATE}{SERVE} --port=0", **changes)
    program.says("READY", STARTING)
    return program, int(program.says(r"MCP endpoint +http://127\.0\.0\.1:(\d+)/mcp")[1])


def first_call(site: Site, command: str, port: int) -> dict[str, Any]:
    assert f":{steps.PORT}/" in command
    answer: dict[str, Any] = json.loads(done(shell(site, command.replace(f":{steps.PORT}/", f":{port}/"))))
    return answer


def interrupted(site: Site, program: Program) -> None:
    program.interrupt()
    program.wait(STOPPING)
    assert program.output().rstrip().endswith("Stopped."), program.output()
    site.await_no_process()


def test_newcomers_first_site(site: Site, installed: Path) -> None:
    typed = [step.text for step in steps.adding() if isinstance(step, Shell)]
    _, begin, prepare, call = typed
    files = [step for step in steps.adding() if isinstance(step, File)]
    first = steps.files()

    (site.folder / ".venv").symlink_to(installed)
    done(shell(site, ACTIVATE + begin))
    for file in first:
        file.write(site.folder)

    *commands, last = prepare.splitlines()
    assert last == SERVE
    done(shell(site, ACTIVATE + "\n".join(commands)), says=NO_ISSUES)
    program, port = served(site)
    assert first_call(site, call, port)["result"]["content"][0]["text"] == "Hello Ada, from somebody!"
    done(shell(site, f"curl -sSf -o /dev/null http://127.0.0.1:{port}/static/admin/css/base.css"))
    interrupted(site, program)

    for file in files[len(first) :]:
        file.write(site.folder)
    python = str(site.folder / ".venv/bin/python")
    with_key = {"ADAS_MCP_KEY": KEY}
    make_user = ("createsuperuser", "--noinput", "--username=ada", "--email=ada@example.com")
    site.run(python, "manage.py", *make_user, DJANGO_SUPERUSER_PASSWORD=KEY, **with_key)

    assert NO_ISSUES in site.run(python, "manage.py", "check", **with_key)
    program, port = served(site, **with_key)
    assert first_call(site, call, port)["error"]["code"] == 401
    keyed = call.replace("curl ", f"curl -H 'Authorization: Bearer {KEY}' ", 1)
    assert first_call(site, keyed, port)["result"]["content"][0]["text"] == "Hello Ada, from ada!"
    interrupted(site, program)
    assert KEY not in program.output()


def test_sites_own_tests_run_with_the_app_in_it(first_site: Site) -> None:
    (first_site.folder / "greetings/tests.py").write_text(OWN_TESTS)
    first_site.run(sys.executable, "manage.py", "test")
