"""The files of docs/deployment/containers, built and run. Calls end, also with the containers that serve them."""

import csv
import json
import re
import tempfile
from collections.abc import Iterator
from http.client import HTTPConnection
from io import StringIO
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance import containers
from tests.acceptance.containers import Composition, Container, ContainersMissingError
from tests.acceptance.situations import INTERRUPT, KILL, LONG, STEP
from tests.acceptance.test_disconnect import assert_stopped
from tests.acceptance.test_endings import error_text
from tests.support.site import programs
from tests.support.site.inspector import Row
from tests.support.site.services import ServicesMissingError, missing, own_services
from tests.support.site.stack import Stack
from tests.support.site.wire import Connection, text
from tests.support.waiting import eventually

pytestmark = [pytest.mark.engines, pytest.mark.nightly, pytest.mark.timeout(3600)]

SETTINGS: Final = "tests.acceptance.container_settings"
HOSTS: Final = "example.com 172.30.30.10 172.30.30.11 172.30.30.12"
HERE: Final = "172.30.30.1"
UP_IN: Final = 300.0
LOST_IN: Final = 60.0
GONE_IN: Final = 60.0
ENDED: Final = 0
ENDED_BY_SIGTERM: Final = 143
"""uvicorn shuts down, and then ends by the signal that it received."""


class Site(Stack):
    """The site, whose clients connect to nginx."""

    composed: Composition
    front: Container
    web: tuple[Container, Container]
    workers_run: list[Container]

    def run_workers(self, *options: str) -> list[Container]:
        """Start two workers, each in a container, and wait until they consume."""
        started = [self.composed.run("worker", *options) for _ in range(2)]
        eventually(lambda: len(self.ask("workers")) == len(started), "the workers consume", UP_IN)
        return started

    def await_front(self) -> None:
        """Wait until nginx's health check succeeds."""
        command = self.composed.health("nginx")
        eventually(lambda: self.front.status_inside(*command) == 0, "nginx says that the site is ready", UP_IN)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="mcp-containers-") as name:
        folder = Path(name)
        try:
            with own_services() as environment, containers.podman(folder) as podman:
                yield from _run(podman, folder / "data", environment)
        except ServicesMissingError as error:
            missing(f"NO PostgreSQL AND Redis, no container was run: {error}")
        except ContainersMissingError as error:
            missing(f"NO CONTAINERS, none was run: {error}")


def _run(podman: containers.Podman, data: Path, engines: dict[str, str]) -> Iterator[Site]:
    data.mkdir()
    data.chmod(0o777)  # the image's user writes here
    own = {
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "MCPSITE_DATA": str(data),
        "MCPSITE_SECRET_KEY": "of the containers",
        "MCPSITE_DEBUG": "0",
        "MCPSITE_HOSTS": HOSTS,
        "MCP_TEST_LOST_AFTER": "15",  # ten processes start at once, so a live one may miss heartbeats
    }
    site = Site(data, {**engines, **own}, workers=2, settings=SETTINGS)
    with containers.composition(podman, data, {**engines, **own}) as composed:
        site.composed = composed
        migrated = composed.run("migrate")
        assert migrated.program.wait(containers.PATIENCE) == ENDED, migrated.program.output()
        assert re.search(r"^echo +enabled", migrated.program.output(), re.MULTILINE), "the tools have rows"
        site.web = composed.run("web-1"), composed.run("web-2")
        composed.run("supervise")
        site.front = composed.run("nginx", port=8080)
        site.serve_from(site.front)
        site.await_front()
        try:
            yield site
            site.settle()
        finally:
            site.inspector.close()


@pytest.fixture(scope="module", params=["by the image's init", "as the first process"])
def workers(request: pytest.FixtureRequest, site: Site) -> Iterator[list[Container]]:
    """The compose file's two workers; or two workers without an init, as the first process of their container."""
    command = json.dumps(site.composed.said["services"]["worker"]["command"])
    options = () if request.param == "by the image's init" else (f"--entrypoint={command}",)
    site.workers_run = site.run_workers(*options)
    yield site.workers_run
    for worker in site.workers_run:
        assert worker.end() == ENDED, worker.program.output()


@pytest.fixture
def steps(site: Site, request: pytest.FixtureRequest) -> Path:
    """A file that all containers can write."""
    return site.data / f"steps-{request.node.name}".replace("/", "-")


def begin(site: Site, tool: str, steps: Path, server: Container | None = None) -> Connection:
    call = site.call(tool, server=server, seconds=LONG, path=str(steps), step=STEP)
    eventually(steps.exists, "it takes a step", UP_IN)
    return call


def worker_of(site: Site, row: Row) -> Container:
    """Return the container whose worker runs the call."""
    started = programs.marked(f"MCP_REQUEST={row.id}")
    [found] = [each for each in site.workers_run if started & each.processes().keys()]
    return found


@pytest.mark.parametrize(
    ("tool", "stage"),
    [("sleep_sync", INTERRUPT), ("stubborn", KILL), ("spawn", KILL), ("detach", INTERRUPT)],
)
def test_a_call_that_is_left_is_stopped_with_all_that_it_started(
    site: Site, workers: list[Container], tool: str, stage: int, steps: Path
) -> None:
    call = begin(site, tool, steps)
    call.close()
    row = site.ended(call, GONE_IN)
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "disconnect", stage)
    assert_stopped(row, steps)
    assert not programs.marked(f"MCP_REQUEST={row.id}")


def test_nothing_dead_is_left_where_the_first_process_is_the_images(
    site: Site, workers: list[Container], steps: Path
) -> None:
    if any(word.startswith("--entrypoint") for word in workers[0].program.command):
        pytest.skip("only tini reaps what is not its own")
    call = begin(site, "detach", steps)
    call.close()
    site.ended(call, GONE_IN)
    for worker in workers:
        eventually(lambda worker=worker: "Z" not in worker.processes().values(), "the dead are reaped", GONE_IN)


def test_a_worker_that_is_stopped_tells_its_clients_and_ends_in_time(
    site: Site, workers: list[Container], steps: Path
) -> None:
    call = begin(site, "spawn", steps)
    worker = worker_of(site, site.row(call))
    ended = worker.end()
    assert ended == ENDED, worker.program.output()
    assert "shutting down" in error_text(call)
    row = site.ended(call)
    assert (row.status, row.cancel_cause) == ("cancelled", "shutdown")
    assert_stopped(row, steps)
    assert text(site.call("echo", text="by the other").result()) == "by the other"
    worker.start_again()
    eventually(lambda: len(site.ask("workers")) == len(workers), "it consumes again", UP_IN)


def test_a_worker_that_is_killed_and_back_under_its_name_and_number_has_lost_its_call(
    site: Site, workers: list[Container], steps: Path
) -> None:
    call = begin(site, "detach", steps)
    row = site.row(call)
    worker = worker_of(site, row)
    worker.kill()
    assert not programs.marked(f"MCP_REQUEST={row.id}"), "what the tool started ends with its container"
    worker.start_again()
    assert "worker" in error_text(call)
    assert site.ended(call, LOST_IN).status == "lost"
    assert_stopped(site.ended(call), steps)
    eventually(lambda: len(site.ask("workers")) == len(workers), "it consumes again", UP_IN)


def test_both_workers_are_known_to_live_in_whichever_container_it_is_asked(
    site: Site, workers: list[Container]
) -> None:
    for asked in (*site.web, *workers):
        said = json.loads(asked.inside("python", "manage.py", "mcp", "doctor", "--json", "--timeout", "30"))
        found = [finding for finding in said["findings"] if finding["name"] == "workers"]
        assert [finding["state"] for finding in found] == ["ok", "ok"], found
        assert len({finding["found"].partition(":")[0] for finding in found}) == len(workers)


@pytest.mark.parametrize("which", [0, 1], ids=["web-1", "web-2"])
def test_a_server_that_is_stopped_tells_its_clients_and_nginx_goes_on_with_the_other(
    site: Site, workers: list[Container], which: int, steps: Path
) -> None:
    server = site.web[which]
    call = begin(site, "sleep_sync", steps, server)
    assert server.end() in (ENDED, ENDED_BY_SIGTERM), server.program.output()
    assert "shutting down" in error_text(call)
    assert site.ended(call).cancel_cause == "shutdown"
    for _ in range(4):
        assert text(site.call("echo", text="here").result()) == "here"
    server.start_again()
    command = site.composed.health("web-1")
    eventually(lambda: server.status_inside(*command) == 0, "its health check says that it is back", UP_IN)
    # podman gives the container a new hardware address, while its neighbours still have the old one for a time.
    reached = [word.replace("127.0.0.1", server.host) for word in (*command, "--max-time", "2")]
    eventually(lambda: site.front.status_inside(*reached) == 0, "nginx reaches it", UP_IN)


def test_calls_go_to_both_servers_and_health_is_nobodys_business_outside(site: Site, workers: list[Container]) -> None:
    paths = [site.data / f"both-{number}" for number in range(2)]
    calls = [begin(site, "sleep_sync", path) for path in paths]
    assert len({site.row(call).server for call in calls}) == len(calls)
    for call in calls:
        call.close()
        site.ended(call)
    audited = site.web[0].inside("python", "manage.py", "mcp", "audit", "export")
    assert {attempt["actor_address"] for attempt in csv.DictReader(StringIO(audited))} >= {HERE}
    assert site.front.host not in audited
    outside = HTTPConnection(site.front.host, site.front.port, timeout=containers.PATIENCE)
    outside.request("GET", "/health/ready/", headers={"Host": "example.com"})
    assert outside.getresponse().status == 403
    outside.close()
    for server in site.web:
        assert server.status_inside(*site.composed.health("web-1")) == 0


def test_the_site_runs_as_nobody_and_has_no_secret_in_its_image(site: Site, workers: list[Container]) -> None:
    for container in (*site.web, *workers):
        assert container.inside("id", "-u").strip() == "10001"
        assert container.status_inside("touch", "/srv/site/written") != 0
        assert container.status_inside("test", "-e", "/srv/site/site.env") != 0
