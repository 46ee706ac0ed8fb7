"""Reads the commands of docs/how-to/deployment.md so that tests can run them, with free ports."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.docs.pages import snippet
from tests.support.site.inspector import ROOT

NGINX: Final = ROOT / "docs" / "deployment" / "nginx.conf"
PORT: Final = "8001"
SAYS: Final = {
    "python": r"MCP endpoint +http://127\.0\.0\.1:(\d+)/mcp",
    "uvicorn": r"Uvicorn running on http://127\.0\.0\.1:(\d+)",
    "hypercorn": r"Running on http://127\.0\.0\.1:(\d+)",
    "daphne": r"Listening on TCP address 127\.0\.0\.1:(\d+)",
}
"""The line that each program prints when it listens, with the port that it chose."""


def server_commands() -> dict[str, list[str]]:
    """Return the page's command line of each program. The program serves the example site, at a free port."""
    lines = snippet("how-to/deployment.md#servers").text.splitlines()
    commands = {words[0]: words for words in map(shlex.split, lines)}
    assert commands.keys() == SAYS.keys()
    return {
        program: [_found(program), *(word.replace(PORT, "0").replace("mysite.", "mcpsite.") for word in words[1:])]
        for program, words in commands.items()
    }


def enabled_units(*ports: int) -> list[str]:
    """Return the systemd units that the page enables, with these ports in place of the page's."""
    copy, enable = snippet("how-to/deployment.md#systemd").text.splitlines()
    assert copy == "cp /path/to/checkout/docs/deployment/systemd/* /etc/systemd/system/"
    assert enable.startswith("systemctl enable --now ")
    for number, port in enumerate(ports, 1):
        enable = enable.replace(f"@800{number}", f"@{port}")
    return enable.split()[3:]


def _found(program: str) -> str:
    """Return the path of a program. It is beside this Python, as in an activated environment, or on `PATH`."""
    if program == "python":
        return sys.executable
    beside = Path(sys.executable).with_name(program)
    found = str(beside) if beside.exists() else shutil.which(program)
    assert found, f"{program} is not installed"
    return found
