"""Each way of connecting connects once for all its tests. At the end the client leaves, and no process may remain."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.acceptance.conftest import pytest_runtest_makereport  # noqa: F401 - shows the output of the site's programs
from tests.clients.driver import Driver
from tests.clients.programs import WAYS, ClientMissingError, Way
from tests.support.site import layouts
from tests.support.site import programs as processes
from tests.support.site.front import front
from tests.support.site.services import ServicesMissingError, own_services
from tests.support.site.stack import Stack
from tests.support.waiting import eventually

MARK = "MCP_TEST_CLIENT"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.clients)


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with layouts.embedded(tmp_path_factory.mktemp("embedded")) as stack:
        yield stack


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    try:
        with own_services() as environment, layouts.engines(tmp_path_factory.mktemp("engines"), environment) as stack:
            yield stack
    except ServicesMissingError as error:
        missing(f"no PostgreSQL and Redis: {error}")


def missing(what: str) -> NoReturn:
    """Skip the test, or fail it if `MCP_REQUIRE_CLIENTS` is 1."""
    why = f"NO CLIENT, it was not tested here: {what}"
    if os.environ.get("MCP_REQUIRE_CLIENTS") == "1":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session", params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    try:
        found.program.require()
    except ClientMissingError as error:
        missing(str(error))
    return found


@pytest.fixture(scope="session", name="running_stack")
def _running_stack(request: pytest.FixtureRequest, way: Way) -> Stack:
    stack: Stack = request.getfixturevalue(way.site)
    return stack


@pytest.fixture(scope="session")
def port(running_stack: Stack) -> Iterator[int]:
    """Yields the site's port: of its only server, or of a front of several servers without sticky sessions."""
    ports = [server.port for server in running_stack.servers]
    if len(ports) == 1:
        yield ports[0]
        return
    with front(*ports) as port:
        yield port


class Kept:
    """The client of one way, started when it is needed. Its processes have its folder in their environment."""

    def __init__(self, way: Way, stack: Stack, port: int, folder: Path) -> None:
        self._way, self._stack, self._port, self._folder = way, stack, port, folder
        self._driver: Driver | None = None

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            marks = {MARK: str(self._folder)}
            self._driver = self._way.connect(self._stack, self._port, marks, self._folder / "driver.log")
        return self._driver

    def processes(self) -> set[int]:
        return processes.marked(f"{MARK}={self._folder}")

    def forget(self) -> None:
        """End the client's processes. The next test gets a new client."""
        driver, self._driver = self._driver, None
        processes.end_all(self.processes())
        if driver is not None:
            driver.reap()

    def leave(self) -> None:
        """Make the client leave. Fails if its exit status is not 0 or a process remains."""
        try:
            if self._driver is not None:
                assert self._driver.leave() == 0, self._driver.errors()
                eventually(lambda: not self.processes(), "the client and its server are gone")
        finally:
            self.forget()


@pytest.fixture(scope="session")
def kept(way: Way, running_stack: Stack, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    kept = Kept(way, running_stack, port, tmp_path_factory.mktemp(str(way)))
    yield kept
    kept.leave()


@pytest.fixture
def client(kept: Kept, running_stack: Stack) -> Iterator[Driver]:
    """Yields the connected client of this way."""
    driver = kept.driver
    yield driver
    if not driver.is_idle:
        kept.forget()
        for request in running_stack.ask("open requests"):  # an older client may resume them
            running_stack.ask("cancel", request_id=request.split()[-1], reason="its test failed")
    running_stack.settle()
