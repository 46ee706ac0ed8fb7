"""`manage.py mcp serve`, from its first line to its last process."""

import os
import shlex
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from tests.management.conftest import SETTINGS, Served, manage, processes, read, wait_until

Serve = Callable[..., Served]

TITLES = ["MCP endpoint", "Admin", "Claude Code", "VS Code", "Cursor", "curl", "stdio", "READY", "Stopping", "Stopped"]


def titles(served: Served) -> list[str]:
    """What each line of the output is about."""
    return [line.split("  ")[0].split(".")[0].split(":")[0] for line in served.output.splitlines()]


def said(served: Served, words: str) -> list[str]:
    return [line for line in served.output.splitlines() if words in line]


def spawned(served: Served, path: Path) -> list[psutil.Process]:
    """The processes that the tool `spawn` started."""
    return [process for process in processes(served.data) if str(path) in " ".join(process.cmdline())]


def test_first_start_serves_a_call_and_its_end_leaves_nothing(tmp_path: Path, serve: Serve) -> None:
    served = serve(tmp_path / "data")
    discovered = served.call("server/discover")
    called = served.call("tools/call", {"name": "roman", "arguments": {"number": 2026}})

    assert discovered["supportedVersions"] == ["2026-07-28"]
    assert called["content"][0]["text"] == "MMXXVI"

    assert served.stop(signal.SIGTERM) == 0, served.output
    assert processes(served.data) == []
    assert served.port_is_free


@pytest.mark.acceptance
def test_output_is_what_people_need_and_the_password_is_said_once(data: Path, serve: Serve) -> None:
    first = serve(data)
    for client in ("Claude Code", "VS Code", "Cursor"):
        assert [first.endpoint in line for line in said(first, client)] == [True]
    words = shlex.split(said(first, "curl -sS")[0])
    headers = dict(words[at + 1].split(": ") for at, word in enumerate(words) if word == "-H")
    answer = httpx.post(first.endpoint, headers=headers, content=words[words.index("-d") + 1], timeout=20)
    assert {"countdown", "roman"} <= {tool["name"] for tool in answer.json()["result"]["tools"]}
    assert first.stop(signal.SIGINT) == 0
    assert len(said(first, "password")) == 1
    assert titles(first) == [*TITLES[:2], "", *TITLES[2:]]

    second = serve(data)
    assert second.stop(signal.SIGINT) == 0
    assert titles(second) == TITLES


@pytest.mark.acceptance
def test_killed_server_takes_everything_along(data: Path, tmp_path: Path, serve: Serve) -> None:
    served = serve(data, "--settings", SETTINGS)
    served.begin_call("spawn", seconds=600, path=str(tmp_path / "steps"))
    wait_until(lambda: spawned(served, tmp_path / "steps"))
    served.stop(signal.SIGKILL)
    wait_until(lambda: not processes(data))


@pytest.mark.acceptance
def test_worker_that_dies_is_started_again_and_leaves_nothing(data: Path, tmp_path: Path, serve: Serve) -> None:
    served = serve(data, "--settings", SETTINGS)
    served.begin_call("spawn", seconds=600, path=str(tmp_path / "steps"))
    wait_until(lambda: spawned(served, tmp_path / "steps"))
    os.kill(served.worker.pid, signal.SIGKILL)

    called = served.call("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert called["content"][0]["text"] == "3"
    assert said(served, "is started again")
    assert spawned(served, tmp_path / "steps") == []
    assert served.stop() == 0
    assert processes(data) == []


@pytest.mark.acceptance
def test_second_interrupt_quits_at_once_and_leaves_no_process(data: Path, tmp_path: Path, serve: Serve) -> None:
    served = serve(data)
    served.begin_call("countdown", seconds=600)
    served.process.send_signal(signal.SIGINT)
    served.wait_said("Stopping")

    assert served.stop(signal.SIGINT) == 130
    assert processes(data) == []


@pytest.mark.acceptance
def test_running_call_is_cancelled_when_the_server_stops(data: Path, tmp_path: Path, serve: Serve) -> None:
    served = serve(data, "--settings", SETTINGS)
    served.begin_call("spawn", seconds=600, path=str(tmp_path / "steps"))

    assert served.stop() == 0
    assert processes(data) == []
    assert read(data, "SELECT status, cancel_cause FROM ?request") == [("cancelled", "shutdown")]
    assert titles(served)[-1] == "Stopped"


@pytest.mark.acceptance
def test_port_in_use_starts_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = manage(tmp_path / "data", "mcp", "serve", "--port", str(port))

    assert done.returncode == 1
    assert f"Cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "--port" in done.stderr
    assert not list((tmp_path / "data").glob("*.sqlite3"))
    assert processes(tmp_path / "data") == []


@pytest.mark.acceptance
def test_host_beyond_this_machine_is_refused_while_anybody_may_call(tmp_path: Path) -> None:
    done = manage(tmp_path / "data", "mcp", "serve", "--port=0", "--host=0.0.0.0")

    assert done.returncode == 1
    assert "anonymous calls are allowed" in done.stderr
    assert not list((tmp_path / "data").glob("*.sqlite3"))
