"""The units of docs/deployment/systemd, run by systemd: started, stopped, restarted during calls, and after a kill."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance import systemd
from tests.acceptance.situations import INTERRUPT, LONG, STEP
from tests.acceptance.systemd import Machine, SystemdMissingError
from tests.acceptance.test_disconnect import assert_stopped
from tests.acceptance.test_endings import error_text
from tests.support.site import guide, programs
from tests.support.site.layouts import closing
from tests.support.site.programs import STARTING
from tests.support.site.services import ServicesMissingError, missing, own_services
from tests.support.site.stack import MANAGE, SETTINGS, Server, Stack
from tests.support.site.wire import Connection, text
from tests.support.waiting import eventually

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]

RESTARTED_IN = 60.0
ALONE = ("mcp-worker.service", "mcp-supervise.service", "mcp.target")
STOPPED = {("inactive", "success"), ("inactive", "")}
"""The state and the result of units that were stopped without a failure. A target has no result."""


class Listening(Server):
    """A server that systemd has started."""

    def __init__(self, port: int) -> None:
        self.port = port

    def stop(self) -> None:
        """Do nothing, because systemd stops the server."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mcp-systemd-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[tuple[Stack, Machine]]:
    """One machine for all tests here, because its start takes a while."""
    try:
        with own_services() as environment:
            yield from run(folder, environment)
    except ServicesMissingError as error:
        missing(f"NO PostgreSQL AND Redis, no unit was run: {error}")
    except SystemdMissingError as error:
        missing(f"NO systemd, no unit was run: {error}")


def run(folder: Path, engines: dict[str, str]) -> Iterator[tuple[Stack, Machine]]:
    ports = free_port(), free_port()
    units = [*(f"mcp-server@{port}.service" for port in ports), *ALONE]
    with closing(Stack(folder, engines, workers=1)) as stack:
        migrated = stack.start(*MANAGE, "migrate", "--settings", SETTINGS, "--verbosity=0")
        assert migrated.wait(STARTING) == 0, migrated.output()
        environment = {name: stack.environment[name] for name in ("MCPSITE_DATA", "DJANGO_SETTINGS_MODULE", *engines)}
        with systemd.machine(folder, environment, *guide.enabled_units(*ports)) as machine:
            stack.serve_from(*map(Listening, ports))
            eventually(lambda: all(map(programs.listens, ports)), "the servers listen", STARTING)
            eventually(lambda: len(stack.ask("workers")) == 1, "the worker consumes", STARTING)
            yield stack, machine
            machine.systemctl("stop", *units)
            assert programs.processes_of(folder) == {stack.inspector.pid}
            for unit in units:
                assert (machine.show(unit, "ActiveState"), machine.show(unit, "Result")) in STOPPED


def long_call(stack: Stack, folder: Path, name: str) -> tuple[Connection, Path]:
    path = folder / name
    call = stack.call("sleep_sync", seconds=LONG, path=str(path), step=STEP)
    eventually(path.exists, "it takes a step")
    return call, path


def main_process(folder: Path, words: str) -> int:
    """Return the oldest process of the site with these words in its command."""
    found = [pid for pid in programs.processes_of(folder) if words in programs.command_line(pid)]
    return min(found, key=lambda pid: os.stat(f"/proc/{pid}").st_ctime_ns)


def test_the_units_run_a_site_and_end_its_calls_as_it_has_them_ended(site: tuple[Stack, Machine], folder: Path) -> None:
    stack, machine = site
    for server in stack.servers:
        assert text(stack.call("echo", server=server, text="here").result()) == "here"
    call, path = long_call(stack, folder, "restarted")
    machine.systemctl("restart", "mcp-worker.service")
    assert "shutting down" in error_text(call)
    row = stack.ended(call)
    assert (row.status, row.cancel_cause) == ("cancelled", "shutdown")
    assert_stopped(row, path)
    assert machine.show("mcp-worker.service", "NRestarts") == "0"
    eventually(lambda: len(stack.ask("workers")) == 1, "the next worker consumes", STARTING)
    call, path = long_call(stack, folder, "left")
    call.close()
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "disconnect", INTERRUPT)
    assert_stopped(row, path)
    machine.systemctl("start", "mcp-purge.service")
    assert machine.show("mcp-purge.service", "Result") == "success"
    assert machine.is_active("mcp-supervise.service")


def test_a_worker_that_is_killed_is_lost_with_its_call_and_another_is_started(
    site: tuple[Stack, Machine], folder: Path
) -> None:
    stack, machine = site
    call, path = long_call(stack, folder, "killed")
    os.kill(main_process(folder, "mcp worker"), signal.SIGKILL)
    assert stack.ended(call, RESTARTED_IN).status == "lost"
    assert "worker" in error_text(call)
    assert_stopped(stack.ended(call), path)
    eventually(lambda: machine.show("mcp-worker.service", "NRestarts") == "1", "it is started again", RESTARTED_IN)
    assert text(stack.call("echo", text="again").result()) == "again"
