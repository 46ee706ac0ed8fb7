"""Start a whole site for the tests: `mcp serve` on the test's databases, with a worker.

The site is a process of its own, which ends with the test process, however that ends. Databases that only the test
process can open (in memory) are not supported.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings as django_settings
from django.core.management import execute_from_command_line
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLite

SETTINGS: Final = "mcp_app.testing.live_settings"
ENVIRONMENT: Final = "MCP_TESTING_SITE"
"""The environment variable with the data of the site for its settings."""
STARTING_SECONDS: Final = 60.0
ENDING_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.05
_ENDPOINT: Final = re.compile(r"MCP endpoint +http://127\.0\.0\.1:(\d+)/")
_SHARED: Final = (
    "A live site needs test databases that other processes can open. SQLite keeps them in memory unless they have a "
    'name: DATABASES[{alias!r}]["TEST"] = {{"NAME": {file}}}.'
)


class LiveSiteError(Exception):
    """The live site cannot run. The message has the reason."""


@dataclass(frozen=True, slots=True)
class LiveSite:
    """The address of the site: 127.0.0.1 and this port."""

    port: int


@contextmanager
def running(folder: Path) -> Iterator[LiveSite]:
    """Run a site during the block. `folder` is for its broker and its log.

    Raises `LiveSiteError` if the site does not start within 60 seconds, or if a test database is in
    memory.
    """
    log = folder / "site.log"
    log.touch(mode=0o600)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "mcp_app.testing.live_site"],
            env=_environment(folder),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    assert process.stdin is not None
    try:
        yield _ready(process, log)
    finally:
        process.stdin.close()
        try:
            process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ready(process: subprocess.Popen[bytes], log: Path) -> LiveSite:
    give_up_at = time.monotonic() + STARTING_SECONDS
    while "READY" not in (said := log.read_text()):
        if process.poll() is not None or time.monotonic() > give_up_at:
            raise LiveSiteError(f"The live site did not start:\n{said}")
        time.sleep(LOOK_SECONDS)
    found = _ENDPOINT.search(said)
    assert found is not None, said
    return LiveSite(int(found[1]))


def _environment(folder: Path) -> dict[str, str]:
    from mcp_app.checks import lines  # needs Django set up, which the program does by itself

    for alias in connections:
        wrapper = connections[alias]
        if isinstance(wrapper, SQLite) and wrapper.is_in_memory_db():
            raise LiveSiteError(_SHARED.format(alias=alias, file=lines.in_folder(f"test-{alias}.sqlite3")))
    told = {
        "settings": django_settings.SETTINGS_MODULE,
        "databases": {alias: str(connections[alias].settings_dict["NAME"]) for alias in connections},
        "broker": str(folder / "broker"),
    }
    path = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    return {**os.environ, "DJANGO_SETTINGS_MODULE": SETTINGS, ENVIRONMENT: json.dumps(told), "PYTHONPATH": path}


def main() -> None:
    """Run the site until standard input ends."""
    os.umask(0o077)  # files of this process are for its own user only
    threading.Thread(target=_end_with_tests, daemon=True).start()
    execute_from_command_line(["mcp", "mcp", "serve", "--port=0", "--concurrency=2"])


def _end_with_tests() -> None:
    # Not `sys.stdin`, whose lock would cause a fatal error if the program ends before the tests.
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
