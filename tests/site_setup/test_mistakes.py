"""`manage.py check` finds each mistake in a new site, and the literal lines of its hint correct it."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.site_setup import steps
from tests.site_setup.conftest import Site

PATIENCE: Final = 120.0
NO_ISSUES: Final = "System check identified no issues"
HINT: Final = re.compile(r"^In (?P<path>[\w/]+\.py)[^\n]*:\n(?P<lines>(?:    .*\n)+)", re.MULTILINE)
"""Matches a hint: a file, and the lines for its end."""


def check(site: Site) -> str:
    """Return the output of `manage.py check`."""
    program = site.start(sys.executable, "manage.py", "check")
    program.wait(PATIENCE)
    return program.output()


def without(path: str, *parts: str) -> Callable[[Path], None]:
    """Return a mistake that removes parts of a file."""

    def change(site: Path) -> None:
        text = (site / path).read_text()
        for part in parts:
            assert part in text
            text = text.replace(part, "")
        (site / path).write_text(text)

    return change


def adding(path: str, lines: str) -> Callable[[Path], None]:
    """Return a mistake that adds lines to a file."""

    def change(site: Path) -> None:
        with (site / path).open("a") as file:
            file.write(lines)

    return change


def snippet(path: str) -> str:
    """Return the lines that docs/how-to/adding.md or docs/how-to/your-own-parts.md adds to a file."""
    [text] = [file.text for file in [*steps.files(), *steps.own_parts()] if file.path == path]
    return text


SETTINGS: Final = "mysite/settings.py"
MISTAKES: Final = [
    ("mcp_app.W011", adding(SETTINGS, 'CELERY_BROKER_URL = "memory://"\n')),
    ("mcp_app.W037", adding(SETTINGS, 'CELERY_BROKER_TRANSPORT_OPTIONS = {"folder": "broker"}\n')),
    ("mcp_app.E013", adding(SETTINGS, "CELERY_BROKER_TRANSPORT_OPTIONS = {}\n")),
    ("mcp_app.E014", adding(SETTINGS, "CELERY_ACCEPT_CONTENT = []\n")),
    ("mcp_app.W003", adding(SETTINGS, 'del DATABASES["mcp"]["OPTIONS"]\n')),
    ("mcp_app.W010", without(SETTINGS, 'CELERY_BROKER_URL = "mcpfs://"')),
    ("mcp_app.W043", without("mysite/__init__.py", snippet("mysite/__init__.py"))),
    ("mcp_app.E033", adding(SETTINGS, 'CELERY_RESULT_BACKEND = "django-db"\n')),
    ("mcp_app.W032", lambda site: (site / "mysite/asgi.py").unlink()),
    ("mcp_app.W033", without("mysite/asgi.py", snippet("mysite/asgi.py"))),
    ("mcp_app.W034", without("mysite/celery.py", 'app.config_from_object("django.conf:settings", namespace="CELERY")')),
]


@pytest.mark.parametrize(("expected", "mistake"), MISTAKES, ids=[expected for expected, _ in MISTAKES])
def test_lines_of_the_hint_mend_the_mistake(chosen_site: Site, expected: str, mistake: Callable[[Path], None]) -> None:
    mistake(chosen_site.folder)
    said = check(chosen_site)
    assert f"({expected})" in said

    for hint in HINT.finditer(said.replace("HINT: ", "\n")):
        lines = "".join(line[4:] for line in hint["lines"].splitlines(keepends=True))
        adding(hint["path"], "\n" + lines)(chosen_site.folder)
    assert NO_ISSUES in check(chosen_site)


def test_forgotten_app_is_named(first_site: Site) -> None:
    without(SETTINGS, '"mcp_app"')(first_site.folder)
    program = first_site.start(sys.executable, "manage.py", "mcp", "serve")
    assert program.wait(PATIENCE) != 0
    assert "Unknown command: 'mcp'" in program.output()


def test_server_without_the_endpoint_does_not_start(first_site: Site) -> None:
    without("mysite/asgi.py", snippet("mysite/asgi.py"))(first_site.folder)
    program = first_site.start(sys.executable, "manage.py", "mcp", "serve", "--port=0")
    assert program.wait(PATIENCE) != 0
    assert re.search(r"CommandError: .*\bmysite\.asgi\.application\b.* MCP\b", program.output())
    first_site.await_no_process()


def test_tool_that_cannot_be_offered_is_named_with_its_reason(first_site: Site) -> None:
    adding("greetings/mcp_tools.py", "\n\n@tool\ndef unusable(*names: str) -> str:\n    return \n")(first_site.folder)
    last = check(first_site).rstrip().splitlines()[-1]
    assert "unusable" in last
    assert "InvalidTool" in last


def test_async_authenticator_is_refused_with_a_sentence(first_site: Site) -> None:
    adding("greetings/authentication.py", "async def caller(connection): ...\n")(first_site.folder)
    adding(SETTINGS, 'MCP = {"AUTHENTICATOR": "greetings.authentication.caller"}\n')(first_site.folder)
    said = check(first_site)
    assert "(mcp_app.E017)" in said
    assert "plain function" in said
