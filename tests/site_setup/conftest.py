"""Sites in folders of their own. No process of a site remains after its test."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.site_setup import steps
from tests.site_setup.steps import Shell
from tests.support.site import programs
from tests.support.site.inspector import ROOT
from tests.support.site.programs import Program
from tests.support.waiting import eventually

INSTALLING = 300.0
MARKER = "MCP_SITE_SETUP"
"""The environment variable that marks all processes of a test. It contains the folder of the site's logs."""
OURS = ("MCPSITE_", "DJANGO_", "CELERY_", "VIRTUAL_ENV", "PYTHONPATH", MARKER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.site)
            item.add_marker(pytest.mark.timeout(900))


class Site:
    """A folder, and the programs that were started in it."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.environment[MARKER] = str(logs)
        self._logs = logs
        self._started = 0

    def start(self, *command: str, **changes: str) -> Program:
        self._started += 1
        log = self._logs / f"{self._started}.log"
        return Program(command, {**self.environment, **changes}, log, cwd=self.folder)

    def run(self, *command: str, within: float = 120.0, **changes: str) -> str:
        """Run a command, which must succeed, and return its output."""
        program = self.start(*command, **changes)
        assert program.wait(within) == 0, program.output()
        return program.output()

    def processes(self) -> Mapping[int, str]:
        """Return every running process of this site, with its command line."""
        return {pid: programs.command_line(pid) for pid in programs.marked(f"{MARKER}={self._logs}")}

    def await_no_process(self) -> None:
        eventually(lambda: not self.processes(), lambda: f"no process is left, but {self.processes()}", within=30.0)

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, logs: Path) -> Iterator["Site"]:
        site = cls(folder, logs)
        try:
            yield site
        finally:
            programs.end_all(set(site.processes()))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the virtual environment that the first lines of docs/how-to/adding.md make, with this checkout in it."""
    folder, logs = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("logs")
    with Site.opened(folder, logs) as site:
        install = next(step.text for step in steps.adding() if isinstance(step, Shell))
        site.run(
            "bash", "-euc", install.replace(steps.CHECKOUT, str(_checkout(folder / "checkout"))), within=INSTALLING
        )
    return folder / ".venv"


def _checkout(into: Path) -> Path:
    """Copy the files of this checkout that pip reads, because pip builds in place and leaves build files."""
    shutil.copytree(ROOT / "mcp_app", into / "mcp_app", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, into)
    return into


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Yields a site in an empty folder."""
    folder, logs = tmp_path / "site", tmp_path / "logs"
    folder.mkdir()
    logs.mkdir()
    with Site.opened(folder, logs) as site:
        yield site


@pytest.fixture
def chosen_site(first_site: Site) -> Site:
    """Returns that site with the database, broker and Celery app of docs/how-to/your-own-parts.md."""
    for file in steps.own_parts():
        file.write(first_site.folder)
    return first_site


@pytest.fixture
def first_project(site: Site) -> Site:
    """Returns a new Django project with an empty app, with this checkout instead of an installed package."""
    site.environment["PYTHONPATH"] = str(ROOT)
    call_command("startproject", "mysite", str(site.folder))
    (site.folder / "greetings").mkdir()
    (site.folder / "greetings/__init__.py").touch()
    return site


@pytest.fixture
def first_site(first_project: Site) -> Site:
    """Returns the site that docs/how-to/adding.md makes of it."""
    for file in steps.files():
        file.write(first_project.folder)
    return first_project
