"""A terminal with a home folder and a working folder of its own, in which lines of a page are typed."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.programs import DRIVERS
from tests.support.site import programs
from tests.support.waiting import eventually

COMMANDS: Final = DRIVERS / "node_modules/.bin"
PATIENCE: Final = 60.0
"""Seconds that lines may take."""
MARK: Final = "MCP_TEST_TERMINAL"
_KEPT: Final = ("LANG", "LC_ALL", "TMPDIR")
_QUIET: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "MCP_AUTO_OPEN_ENABLED": "false",
    "MCP_INSPECTOR_SECRET_STORE": "memory",
    "npm_config_offline": "true",
    "npm_config_update_notifier": "false",
}
"""The clients open no browser, use no keychain, and do not ask the internet for updates."""


@dataclass(frozen=True)
class Typed:
    """The output of lines that succeeded."""

    stdout: str
    stderr: str

    def __contains__(self, text: str) -> bool:
        return text in self.stdout or text in self.stderr

    @property
    def lines(self) -> list[str]:
        return (self.stdout + self.stderr).splitlines()


class Terminal:
    """The commands that `drivers/install` has installed come first in `PATH`, and `python` is the tests' own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder, self._mark = folder / "home", folder / "project", f"{MARK}={folder}"
        for each in (self.home, self.folder):
            each.mkdir()
        (self.folder / "node_modules").symlink_to(DRIVERS / "node_modules")  # npx finds the Inspector there
        path = (str(COMMANDS), str(Path(sys.executable).parent), os.environ["PATH"])
        self.environment = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            **_QUIET,
            "HOME": str(self.home),
            "PATH": ":".join(path),
            MARK: str(folder),
        }

    def type(self, lines: str, *, within: Path | None = None, **environment: str) -> Typed:
        """Run lines, which must succeed, in the working folder or `within` another folder."""
        done = subprocess.run(
            ["bash", "-euc", lines],
            cwd=within or self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
        return Typed(done.stdout, done.stderr)

    def _processes(self) -> set[int]:
        return programs.marked(self._mark)

    def close(self) -> None:
        """End all processes. Fails if one is left after its command."""
        try:
            eventually(lambda: not self._processes(), lambda: f"no process is left, but {self._commands()}")
        finally:
            programs.end_all(self._processes())

    def _commands(self) -> list[str]:
        return [programs.command_line(pid) for pid in self._processes()]
