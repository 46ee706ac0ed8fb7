"""The stacks: each is started once, for all tests that run on it. After every test no request may be open.

On RabbitMQ, CI runs only the tests that are marked `broker`; the nightly run has all of them.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance import leftovers, outages
from tests.acceptance.leftovers import Discoveries
from tests.acceptance.outages import Site
from tests.support.site import layouts
from tests.support.site.services import ServicesMissingError, missing, own_services
from tests.support.site.stack import Stack

BY_NIGHT: Final = frozenset(
    {
        "test_chaos.py",
        "test_clocks.py",
        "test_deploy.py",
        "test_doctor.py",
        "test_not_consuming.py",
        "test_outages_broker.py",
        "test_outages_database.py",
        "test_outages_layer.py",
        "test_own_engines.py",
        "test_rabbitmq.py",
        "test_restore.py",
        "test_supervise.py",
        "test_systemd.py",
        "test_upgrade.py",
    }
)
"""Tests that kill engines or processes of their own. Together they take too long to run for every change."""
DISCOVERIES: Final = pytest.StashKey[Discoveries]()
MEASURED: Final = pytest.StashKey[dict[str, list[float]]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    by_night = {here / name for name in BY_NIGHT}
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.acceptance)
        if item.path in by_night or _is_on_rabbitmq(item):
            item.add_marker(pytest.mark.nightly)


def _is_on_rabbitmq(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("running_stack") == "rabbitmq"


@pytest.fixture(
    scope="session",
    params=[
        "embedded",
        pytest.param("engines", marks=pytest.mark.engines),
        pytest.param("rabbitmq", marks=pytest.mark.engines),
    ],
    name="running_stack",
)
def _running_stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if request.param == "rabbitmq":
        yield request.getfixturevalue("rabbitmq_site").stack
        return
    data = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with layouts.embedded(data) as stack:
            yield stack
        return
    with _services() as environment, layouts.engines(data, environment) as stack:
        yield stack


@pytest.fixture(params=["embedded", pytest.param("engines", marks=pytest.mark.engines)])
def engines(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The environment for a site of the test's own, whose processes the test starts and kills."""
    if request.param == "embedded":
        yield {}
        return
    with _services() as environment:
        yield environment


@contextmanager
def _services() -> Iterator[dict[str, str]]:
    try:
        with own_services() as environment:
            yield environment
    except ServicesMissingError as error:
        missing(f"NO PostgreSQL AND Redis, half of the acceptance tests did not run: {error}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the output of the stack's programs to the report of a failed test."""
    report = yield
    site = item.funcargs.get("running_site")
    stack = site.stack if isinstance(site, Site) else item.funcargs.get("running_stack")
    if report.failed and isinstance(stack, Stack):
        report.sections += list(stack.logs())
    return report


@pytest.fixture(scope="session")
def redis_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from _site(request, tmp_path_factory, "redis")


@pytest.fixture(scope="session")
def rabbitmq_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from _site(request, tmp_path_factory, "rabbitmq")


def _site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kind: str) -> Iterator[Site]:
    measured = request.config.stash.setdefault(MEASURED, {})
    try:
        with outages.site(tmp_path_factory.mktemp(kind), kind) as site:
            yield site
            measured.update(site.measured)
    except ServicesMissingError as error:
        missing(f"NO ENGINES OF THEIR OWN, no outage was tested: {error}")


@pytest.fixture(scope="session", params=["redis", "rabbitmq"])
def running_site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(f"{request.param}_site")
    return found


@pytest.fixture
def site(running_site: Site, discoveries: Discoveries) -> Iterator[Site]:
    """A site whose engines the test may stop. Afterwards they are started again, and no request may be open."""
    yield running_site
    running_site.restore()
    running_site.await_workers()
    leftovers.assert_none(running_site.stack, discoveries)


@pytest.fixture
def stack(running_stack: Stack, discoveries: Discoveries) -> Iterator[Stack]:
    yield running_stack
    leftovers.assert_none(running_stack, discoveries)


@pytest.fixture(scope="session")
def discoveries(request: pytest.FixtureRequest) -> Discoveries:
    request.config.stash[DISCOVERIES] = found = Discoveries()
    return found


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> dict[str, list[float]]:
    """Durations in seconds, printed at the end of the run, whose bounds are too tight to assert on a busy machine."""
    return request.config.stash.setdefault(MEASURED, {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if DISCOVERIES in config.stash:
        terminalreporter.write_line(f"server/discover after tests: {config.stash[DISCOVERIES].summary()}")
    for what, seconds in sorted(config.stash.get(MEASURED, {}).items()):
        terminalreporter.write_line(f"{what}: {len(seconds)} times, {max(seconds):.2f} s at most")


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """The file to which a tool writes its steps."""
    return tmp_path / "steps"
