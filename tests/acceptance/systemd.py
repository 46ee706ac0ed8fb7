"""A machine made of namespaces, in which systemd is the first process and runs the units of docs/deployment/systemd.

Its files are an overlay on this machine's that is discarded. Network, PostgreSQL and Redis are this machine's.
"""

import getpass
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from tests.support.site.inspector import ROOT
from tests.support.site.programs import STARTING, Program
from tests.support.waiting import eventually

UNITS: Final = ROOT / "docs" / "deployment" / "systemd"
SYSTEMD: Final = "/lib/systemd/systemd"
MASKED: Final = (
    *("systemd-sysctl", "systemd-modules-load", "systemd-binfmt", "systemd-udevd", "systemd-udev-trigger"),
    "systemd-tmpfiles-setup",
)
"""Services that would change the kernel, which is this machine's, or empty /tmp, which may contain the code."""
NAMESPACES: Final = ("--pid", "--mount", "--ipc", "--uts", "--cgroup")
PATIENCE: Final = 90.0
BOOT: Final = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs {own}
mkdir {own}/upper {own}/work {own}/root
mount -t overlay overlay -o lowerdir=/,upperdir={own}/upper,workdir={own}/work {own}/root
cd {own}/root
mount --rbind /dev dev
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs tmpfs run
mkdir -p .{shared}
mount --bind {shared} .{shared}
rm -rf etc/systemd/system
cp -r {units} etc/systemd/system
hostname machine-of-a-test
exec chroot . env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin {systemd} --unit=mcp.target --log-target=null
"""


class SystemdMissingError(Exception):
    """systemd is not installed, or namespaces are not permitted. The message names the reason."""


class Machine:
    """The machine, with systemd running."""

    def __init__(self, pid: int) -> None:
        self._inside = ["nsenter", f"--target={pid}", "--mount", "--pid", "--cgroup", "--uts", "--root", "--wd=/"]

    def systemctl(self, *words: str) -> str:
        """Run `systemctl` and return its output. Raises `subprocess.CalledProcessError` if it fails."""
        command = [*self._inside, "systemctl", "--no-pager", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return done.stdout

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.systemctl("show", "--property", name, "--value", unit).strip()

    def is_active(self, unit: str) -> bool:
        return self.show(unit, "ActiveState") == "active"


@contextmanager
def machine(data: Path, environment: Mapping[str, str], *enabled: str) -> Iterator[Machine]:
    """Run the machine with these units enabled. `data` is the site's folder, which it shares with this machine.

    Raises `SystemdMissingError`.
    """
    if not Path(SYSTEMD).exists() or shutil.which("systemctl") is None:
        raise SystemdMissingError("systemd is not installed (Debian: apt-get install systemd)")
    if os.geteuid():
        raise SystemdMissingError("making namespaces takes root")
    own = data / "machine"
    own.mkdir()
    units = _units(data, environment, enabled)
    script = BOOT.format(own=own, shared=data, units=units, systemd=SYSTEMD)
    command = ["unshare", "--fork", "--kill-child=SIGKILL", *NAMESPACES, "bash", "-c", script]
    booted = Program(command, os.environ, data / "boot.log", cwd=Path("/"))
    try:
        found = _booted(booted)
        yield found
        found.systemctl("exit", "0")  # removes its control groups, unlike a kill
        booted.wait(PATIENCE)
    finally:
        if not booted.ended:
            booted.kill()


def _booted(booted: Program) -> Machine:
    def started() -> Machine | None:
        if booted.ended:
            raise SystemdMissingError(f"no machine could be made: {booted.output().strip()}")
        for child in psutil.Process(booted.pid).children():
            if child.name() == "systemd":
                found = Machine(child.pid)
                return found if _answers(found) else None
        return None

    found = eventually(started, "systemd is up", STARTING)
    assert found is not None
    return found


def _answers(found: Machine) -> bool:
    try:
        return found.is_active("mcp.target")
    except subprocess.CalledProcessError:
        return False


def _units(data: Path, environment: Mapping[str, str], enabled: tuple[str, ...]) -> Path:
    """Write the page's units with this site's paths and user, and enable them as an administrator does."""
    folder = data / "units"
    folder.mkdir()
    variables = data / "environment"
    variables.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in environment.items()))
    here = {
        "/srv/site/.venv/bin/python": sys.executable,
        "WorkingDirectory=/srv/site": f"WorkingDirectory={ROOT}",
        "/etc/mcp/environment": str(variables),
        "User=mcp": f"User={getpass.getuser()}",
        "mysite.asgi": "mcpsite.asgi",
    }
    for unit in UNITS.iterdir():
        text = unit.read_text()
        for written, meant in here.items():
            text = text.replace(written, meant)
        (folder / unit.name).write_text(text)
    for service in MASKED:
        (folder / f"{service}.service").symlink_to("/dev/null")
    root = data / "root"
    (root / "etc" / "systemd").mkdir(parents=True)
    (root / "etc" / "systemd" / "system").symlink_to(folder)
    subprocess.run(["systemctl", f"--root={root}", "enable", *enabled], check=True, capture_output=True)
    return folder
