"""docs/deployment.md as it is run: its command lines and its nginx file, with free ports in place of its own."""

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
"""What each program prints when it listens, with the port that it chose."""


def server_commands() -> dict[str, list[str]]:
    """Program → its line of the page, on a port of its own choice."""
    lines = snippet("deployment.md#servers").text.splitlines()
    commands = {words[0]: words for words in map(shlex.split, lines)}
    assert commands.keys() == SAYS.keys()
    return {
        program: [_found(program), *(word.replace(PORT, "0") for word in words[1:])]
        for program, words in commands.items()
    }


def enabled_units(*ports: int) -> list[str]:
    """What the page has systemd enable, with these ports in place of its own."""
    copy, enable = snippet("deployment.md#systemd").text.splitlines()
    assert copy == "cp docs/deployment/systemd/* /etc/systemd/system/"
    assert enable.startswith("systemctl enable --now ")
    for number, port in enumerate(ports, 1):
        enable = enable.replace(f"@800{number}", f"@{port}")
    return enable.split()[3:]


def _found(program: str) -> str:
    """Where the program is: beside this Python, as in an activated environment, or on the path."""
    if program == "python":
        return sys.executable
    beside = Path(sys.executable).with_name(program)
    found = str(beside) if beside.exists() else shutil.which(program)
    assert found, f"{program} is not installed"
    return found
