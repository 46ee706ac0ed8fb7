"""The command line as a user runs it: real processes on a data folder of their own."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support import waiting

ROOT = Path(__file__).parents[2]
SETTINGS = "tests.management.settings"
WAIT_SECONDS = 40.0
eventually = partial(waiting.eventually, within=WAIT_SECONDS)
USUAL_UMASK = 0o022
"""The environment of a user's shell. The test process has the environment of the example site."""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def environment(data: Path, **changes: str) -> dict[str, str]:
    """The environment of the example site on the folder `data`, embedded."""
    ours = ("MCPSITE_", "DJANGO_SETTINGS_MODULE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "MCPSITE_DATA": str(data), **changes}


def processes(data: Path) -> list[psutil.Process]:
    """Return the live processes that were started with the folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MCPSITE_DATA") == str(data):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def read(data: Path, query: str) -> list[tuple[Any, ...]]:
    """Read rows of this app from the database file. A question mark in the query stands for the table's prefix."""
    with closing(sqlite3.connect(f"file:{data / 'mcp.sqlite3'}?mode=ro", uri=True)) as connection:
        return connection.execute(query.replace("?", "mcp_app_")).fetchall()


def write(data: Path, statement: str) -> None:
    """Change rows of this app without the app."""
    with closing(sqlite3.connect(data / "mcp.sqlite3")) as connection, connection:
        connection.execute(statement)


def open_to_others(folder: Path) -> list[str]:
    """Return every path in a data folder, including the folder, that the group or other users may access.

    Files in `projects` are left out: they keep their modes, because the folder itself blocks access.
    """
    found = (folder, *(path for path in folder.rglob("*") if folder / "projects" not in path.parents))
    return [str(path) for path in found if path.exists() and path.stat().st_mode & 0o077]


def manage(data: Path, *arguments: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    """Run `manage.py` and wait for its end."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(data, **changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
        umask=USUAL_UMASK,
    )


class Served:
    """A running `mcp serve` on a free port, and its output."""

    def __init__(self, data: Path, log: Path, *arguments: str, **changes: str) -> None:
        self.data = data
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "mcp", "serve", "--port=0", "--concurrency=2", *arguments],
                cwd=ROOT,
                env=environment(data, **changes),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                umask=USUAL_UMASK,
            )

    @property
    def output(self) -> str:
        return self._log.read_text()

    @property
    def endpoint(self) -> str:
        found = re.search(r"^MCP endpoint +(\S+)$", self.output, re.MULTILINE)
        assert found, self.output
        return found[1]

    @property
    def worker(self) -> psutil.Process:
        """Return the worker's main process."""
        [worker] = [child for child in psutil.Process(self.process.pid).children() if "worker" in child.cmdline()]
        return worker

    def wait_said(self, text: str, times: int = 1) -> None:
        eventually(lambda: self.output.count(text) >= times or self.process.poll() is not None)
        assert self.output.count(text) >= times, self.output

    def call(
        self, method: str, params: dict[str, Any] | None = None, timeout: float = 30.0, **fields: str
    ) -> dict[str, Any]:
        """Send one request as a protocol client and return the result. `fields` are header fields."""
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **fields,
        }
        if params and "name" in params:
            headers["Mcp-Name"] = params["name"]
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": META}}
        text = httpx.post(self.endpoint, json=body, headers=headers, timeout=timeout).text
        messages = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        result: dict[str, Any] = json.loads(messages[-1] if messages else text)["result"]
        return result

    def begin_call(self, name: str, **arguments: object) -> None:
        """Call a tool and wait until it runs. The response, which may never come, is ignored."""

        def call() -> None:
            with suppress(httpx.HTTPError):
                self.call("tools/call", {"name": name, "arguments": arguments})

        threading.Thread(target=call, daemon=True).start()
        eventually(lambda: read(self.data, "SELECT 1 FROM ?request WHERE status = 'running'"))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal, wait for the end, and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)

    def wait_gone(self) -> None:
        """Wait until no process of this site is left, including the main one."""
        eventually(lambda: not processes(self.data))

    @property
    def port_is_free(self) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return probe.connect_ex(("127.0.0.1", int(httpx.URL(self.endpoint).port or 0))) != 0

    def clean_up(self) -> None:
        for process in processes(self.data):
            process.kill()
        self.process.wait(WAIT_SECONDS)


@pytest.fixture
def data(tmp_path: Path, migrated: Path) -> Path:
    """A data folder for one test, with tables."""
    return Path(shutil.copytree(migrated, tmp_path / "data"))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start `mcp serve` on a folder and wait until it is ready. All its processes end with the test."""
    started: list[Served] = []

    def start(data: Path, *arguments: str, **changes: str) -> Served:
        started.append(Served(data, tmp_path / f"serve{len(started)}.log", *arguments, **changes))
        started[-1].wait_said("READY")
        return started[-1]

    yield start
    for served in started:
        served.clean_up()
