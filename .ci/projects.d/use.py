"""Serves the project in the current folder, calls its tools, and stops calls in each way. Used by .ci/projects."""

# This script runs programs, and prints for people.
# ruff: noqa: S603, S607, T201

import argparse
import base64
import http.cookiejar
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

WORK = Path(tempfile.mkdtemp()) / "work"  # each step of the slow tool adds a line
TWO_STEPS = 2.5
"""Seconds in which a slow tool that was not stopped would write at least two lines."""
LOGS = Path(tempfile.mkdtemp())


def wait_for(what: str, found: Callable[[], object], seconds: float = 60) -> object:
    until = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.2)
    return answer


def manage(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=90
    ).stdout


@contextmanager
def running(name: str, command: list[str], stop: signal.Signals) -> Iterator[Path]:
    """Run a program with its output in a file, and stop it at the end."""
    log = LOGS / name
    with log.open("w") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, "USED_FILE": str(WORK)}
        )
    try:
        yield log
        process.send_signal(stop)
        assert process.wait(30) == 0, f"{name} ended with {process.returncode}"
    except BaseException:
        process.kill()
        print(log.read_text()[-5000:])
        raise


def curl(url: str, tool: str) -> subprocess.Popen[str]:
    meta = {
        "progressToken": 1,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": {}, "_meta": meta},
    }
    headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        f"Mcp-Name: {tool}",
    ]
    options = [part for header in headers for part in ("-H", header)]
    return subprocess.Popen(
        ["curl", "-sS", "-N", "-m", "60", url, *options, "-d", json.dumps(message)], stdout=subprocess.PIPE, text=True
    )


def last_request() -> dict[str, str]:
    return json.loads(manage("mcp", "requests", "--all", "--limit", "1", "--json"))[0]


def stop_a_call(url: str, how: str, stop: Callable[[subprocess.Popen[str], str], object]) -> None:
    """Begin a slow call, stop it after two reports of progress, and check that its work has ended."""
    client = curl(url, "count_slowly")
    assert client.stdout
    seen = 0
    while seen < 2:
        line = client.stdout.readline()
        assert line, "the call ended before it was stopped"
        seen += "notifications/progress" in line
    [row] = json.loads(manage("mcp", "requests", "--json"))
    began = time.monotonic()
    stop(client, row["id"])
    wait_for(f"stopped by {how}", lambda: last_request()["status"] == "cancelled", 30)
    steps = WORK.read_text()
    time.sleep(TWO_STEPS)  # nothing reports that a tool does not go on
    assert WORK.read_text() == steps, f"the tool still works after it was stopped by {how}"
    client.wait(30)
    print(f"stopped by {how} in {time.monotonic() - began - TWO_STEPS:.1f} s")


class Admin:
    """A superuser's browser."""

    def __init__(self, address: str, password: str) -> None:
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        self.address = address
        login = f"{address}login/"
        self.post(login, login, username="admin", password=password, next=address)
        assert "sessionid" in self.cookies(), "the password that `mcp serve` prints is not accepted"

    def post(self, form: str, target: str, **values: str) -> None:
        page = self.opener.open(form, timeout=30).read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)', page)
        assert token, f"{form} has no form"
        data = urllib.parse.urlencode({"csrfmiddlewaretoken": token[1], **values}).encode()
        self.opener.open(target, data, timeout=30)

    def cancel(self, request_id: str) -> None:
        page = f"{self.address}mcp_app/request/{request_id}/"
        self.post(page, f"{page}cancel/", reason="in the admin")

    def cookies(self) -> str:
        return "; ".join(f"{each.name}={each.value}" for each in self.jar)


def open_websocket(host: str, port: int, path: str, cookies: str) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    with socket.create_connection((host, port), timeout=30) as connection:
        lines = [
            f"GET /{path} HTTP/1.1",
            f"Host: {host}:{port}",
            f"Origin: http://{host}:{port}",
            f"Cookie: {cookies}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        ]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = connection.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 101 "), answer
    print("its WebSocket opens")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1", help="a host that the site allows")
    parser.add_argument("--page", default="", help="a page of the site")
    parser.add_argument("--admin", help="the path of the admin, where a call is stopped")
    parser.add_argument("--websocket", help="the path of a WebSocket of the site")
    parser.add_argument("--worker", help="the command of the site's own worker, instead of that of `mcp serve`")
    parser.add_argument("--task", help="a Celery task of the site")
    options = parser.parse_args()

    if options.worker:
        with running("worker", shlex.split(options.worker), signal.SIGTERM) as log:
            use(options, "--no-worker")
            module, _, name = options.task.rpartition(".")
            code = f"from {module} import {name}; print('its task returned', {name}.delay().get(timeout=30))"
            print(manage("shell", "-v", "0", "-c", code))
            assert f"{options.task}[" in log.read_text(), "the site's worker did not run its task"
    else:
        use(options)


def use(options: argparse.Namespace, *arguments: str) -> None:
    command = [sys.executable, "manage.py", "mcp", "serve", "--port", "0", *arguments]
    with running("serve", command, signal.SIGINT) as log:
        wait_for("READY", lambda: "READY." in log.read_text())
        printed = log.read_text()
        url = re.search(r"MCP endpoint +(http://\S+)", printed)[1]
        port = urllib.parse.urlsplit(url).port

        answer, _ = curl(url, "list_rows").communicate(timeout=60)
        assert '"a row"' in answer, answer
        print(answer)
        stop_a_call(url, "leaving", lambda client, _: client.kill())
        stop_a_call(url, "the command line", lambda _, request: manage("mcp", "cancel", request, "--wait"))
        cookies = ""
        if options.admin:
            password = re.search(r"user admin, password (\S+)", printed)[1]
            admin = Admin(f"http://{options.host}:{port}/{options.admin}", password)
            stop_a_call(url, "the admin", lambda _, request: admin.cancel(request))
            cookies = admin.cookies()
        urllib.request.urlopen(f"http://{options.host}:{port}/{options.page}", timeout=30)
        if options.websocket:
            open_websocket(options.host, port, options.websocket, cookies)


if __name__ == "__main__":
    main()
