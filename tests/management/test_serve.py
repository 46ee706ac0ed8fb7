"""`manage.py mcp serve`, from its first line of output to its last process."""

import os
import re
import shlex
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from mcp_app.management.serving.worker_process import FIRST_STARTS
from tests.management.conftest import SETTINGS, Served, eventually, manage, open_to_others, processes, read

Serve = Callable[..., Served]

UNSTARTABLE = "tests.management.unstartable_settings"

TITLES = [
    "MCP endpoint",
    "Admin",
    "Token",
    "Claude Code",
    "VS Code",
    "Cursor",
    "curl",
    "stdio",
    "READY",
    "Stopping",
    "Stopped",
]


def titles(served: Served) -> list[str]:
    """Return the title of each line of the output."""
    return [line.split("  ")[0].split(".")[0].split(":")[0] for line in served.output.splitlines()]


def said(served: Served, words: str) -> list[str]:
    return [line for line in served.output.splitlines() if words in line]


def spawned(served: Served, path: Path) -> list[psutil.Process]:
    """Return the processes that the tool `spawn` started."""
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
    assert titles(first) == [*TITLES[:2], "", "Token", "", "", *TITLES[3:]]

    second = serve(data)
    assert second.stop(signal.SIGINT) == 0
    assert titles(second) == TITLES
    assert "mcp token create" in said(second, "Token")[0]
    assert "Authorization" not in second.output


@pytest.mark.acceptance
def test_tools_that_run_code_take_the_token_that_is_made_at_the_first_start(data: Path, serve: Serve) -> None:
    served = serve(data)
    token = said(served, "Token")[0].split()[1]
    for client in ("Claude Code", "VS Code", "Cursor", "curl"):
        assert [f"Bearer {token}" in line for line in said(served, client)] == [True]
    evaluate = {"name": "evaluate_python", "arguments": {"code": "6 * 7"}}

    refused = served.call("tools/call", evaluate)
    assert refused["isError"]
    assert "only staff may call it" in refused["content"][0]["text"]
    assert served.call("tools/call", evaluate, Authorization=f"Bearer {token}")["structuredContent"]["value"] == "42"

    wrong = httpx.post(served.endpoint, headers={"Authorization": f"Bearer {token[:-1]}"}, json={}, timeout=20)
    assert wrong.status_code == 401
    assert served.stop() == 0
    assert token not in (data / "mcp.sqlite3").read_bytes().decode("latin-1")


@pytest.mark.acceptance
def test_everything_that_a_site_writes_is_for_its_own_user_alone(tmp_path: Path, serve: Serve) -> None:
    served = serve(tmp_path / "data")
    assert served.call("tools/call", {"name": "roman", "arguments": {"number": 1}})["content"]
    assert served.call("tools/call", {"name": "lint", "arguments": {"project": "sample"}})["content"]
    assert {"secret-key", "site.sqlite3", "mcp.sqlite3", "mcp.sqlite3-wal", "broker", "uploads", "projects"} <= {
        path.name for path in served.data.iterdir()
    }
    assert open_to_others(served.data) == []
    assert served.stop() == 0
    assert open_to_others(served.data) == []


def test_the_folder_of_an_earlier_start_is_closed_to_others(data: Path) -> None:
    data.chmod(0o755)
    assert manage(data, "check").returncode == 0
    assert data.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_holds_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    """The folder may belong to the system, such as `/tmp`."""
    tmp_path.chmod(0o755)
    (tmp_path / "another's").touch()
    assert manage(tmp_path, "check").returncode == 0
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    (tmp_path / "another's").unlink()
    assert open_to_others(tmp_path) == [str(tmp_path)]


@pytest.mark.acceptance
def test_killed_server_takes_everything_along(data: Path, tmp_path: Path, serve: Serve) -> None:
    served = serve(data, "--settings", SETTINGS)
    served.begin_call("spawn", seconds=600, path=str(tmp_path / "steps"))
    eventually(lambda: spawned(served, tmp_path / "steps"))
    served.stop(signal.SIGKILL)
    eventually(lambda: not processes(data))


@pytest.mark.acceptance
def test_worker_that_dies_is_started_again_and_leaves_nothing(data: Path, tmp_path: Path, serve: Serve) -> None:
    served = serve(data, "--settings", SETTINGS)
    served.begin_call("spawn", seconds=600, path=str(tmp_path / "steps"))
    eventually(lambda: spawned(served, tmp_path / "steps"))
    os.kill(served.worker.pid, signal.SIGKILL)

    called = served.call("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert called["content"][0]["text"] == "3"
    assert said(served, "started again")
    assert spawned(served, tmp_path / "steps") == []
    assert served.stop() == 0
    assert processes(data) == []


@pytest.mark.acceptance
def test_a_server_whose_worker_cannot_be_started_says_why_and_ends(data: Path) -> None:
    done = manage(data, "mcp", "serve", "--port=0", "--settings", UNSTARTABLE, NO_WORKER_WHILE=str(data))
    assert done.returncode == 1
    assert done.stderr.count("this worker's package is broken") == FIRST_STARTS
    assert re.search(rf"worker cannot be started\b.* {FIRST_STARTS} times\b", done.stdout)
    assert "not be started" in done.stderr
    assert "READY" not in done.stdout
    assert processes(data) == []


@pytest.mark.acceptance
def test_a_worker_that_has_run_is_started_again_however_often_that_fails(
    data: Path, tmp_path: Path, serve: Serve
) -> None:
    broken = tmp_path / "broken"
    served = serve(data, "--settings", UNSTARTABLE, NO_WORKER_WHILE=str(broken))
    broken.touch()
    os.kill(served.worker.pid, signal.SIGKILL)
    served.wait_said("this worker's package is broken", times=FIRST_STARTS + 1)
    broken.unlink()
    give_up_at = time.monotonic() + 60.0
    text = ""
    while text != "3":  # under DEBUG, a call fails after it has waited 15 s for a worker
        assert time.monotonic() < give_up_at, text
        called = served.call("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, timeout=60.0)
        text = called["content"][0]["text"]
    assert served.stop() == 0


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
    assert re.search(rf"127\.0\.0\.1\b.*\b{port}\b", done.stderr)
    assert "--port" in done.stderr
    assert not list((tmp_path / "data").glob("*.sqlite3"))
    assert processes(tmp_path / "data") == []


@pytest.mark.acceptance
def test_host_beyond_this_machine_is_refused_while_anybody_may_call(tmp_path: Path) -> None:
    done = manage(tmp_path / "data", "mcp", "serve", "--port=0", "--host=0.0.0.0")

    assert done.returncode == 1
    assert "anonymous calls" in done.stderr
    assert not list((tmp_path / "data").glob("*.sqlite3"))
