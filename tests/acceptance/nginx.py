"""nginx with docs/deployment/nginx.conf, in front of two servers of a test."""

import getpass
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from tests.support.site import programs
from tests.support.site.guide import NGINX
from tests.support.site.programs import Program
from tests.support.site.stack import Server
from tests.support.waiting import eventually

PORTS: Final = ("8001", "8002")
LISTENS: Final = "8080"
OF_THE_SYSTEM: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""Temporary folders that Debian's build has in system folders by default."""


class NginxMissingError(Exception):
    """nginx is not installed. The message names the package."""


class Front(Server):
    """A running nginx, which tests use like a server."""

    def __init__(self, program: Program, port: int) -> None:
        self.program = program
        self.port = port

    def peak_memory(self) -> int:
        """Return the sum of the peak resident memory of its processes in KiB."""
        process = psutil.Process(self.program.pid)
        return sum(programs.peak_memory(each.pid) for each in (process, *process.children()))


@contextmanager
def front(
    folder: Path, servers: Sequence[Server], environment: Mapping[str, str], *inside: str, **changes: str
) -> Iterator[Front]:
    """Run nginx. `changes` are directives with values that replace the file's; `inside` is a prefix of its command.

    Raises `NginxMissingError`.
    """
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        raise NginxMissingError("nginx is not on the path (Debian: apt-get install nginx-light)")
    folder.mkdir()
    port = _free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(_configuration(folder, servers, port, changes))
    # nginx's default user could not read the test's folder.
    own = f"daemon off; pid {folder / 'pid'}; user {getpass.getuser()};"
    command = [*inside, found, "-p", str(folder), "-c", str(configuration), "-e", "stderr", "-g", own]
    program = Program(command, environment, folder / "log", cwd=folder)
    # The pid file is written when nginx listens.
    eventually(lambda: program.ended or (folder / "pid").exists(), "nginx listens")
    assert not program.ended, program.output()
    try:
        yield Front(program, port)
    finally:
        status = program.stop()
    assert status == 0, program.output()


def _configuration(folder: Path, servers: Sequence[Server], port: int, changes: Mapping[str, str]) -> str:
    """Return the guide's configuration with other ports, temporary folders of the test, and the changes."""
    text = NGINX.read_text()
    replaced = {
        **{
            f"127.0.0.1:{written};": f"127.0.0.1:{server.port};" for written, server in zip(PORTS, servers, strict=True)
        },
        f"listen {LISTENS} ": f"listen 127.0.0.1:{port} ",
    }
    for written, other in replaced.items():
        assert text.count(written) == 1, written
        text = text.replace(written, other)
    lines = text.splitlines()
    for directive, value in changes.items():
        [number] = [number for number, line in enumerate(lines) if line.split()[:1] == [directive]]
        lines[number] = f"{directive} {value};"
    own = [f"{name}_temp_path {folder / name};" for name in OF_THE_SYSTEM]
    where = lines.index("http {") + 1
    return "\n".join([*lines[:where], "access_log off;", *own, *lines[where:], ""])


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
