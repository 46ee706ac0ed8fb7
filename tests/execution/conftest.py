"""Sites with workers, and both interrupters. A site that tests share has one worker, which they leave unchanged."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from mcp_app.execution.stopping.interrupt import SignalInterrupter
from mcp_app.execution.stopping.thread_interrupt import ThreadInterrupter
from tests.execution.site import SETTINGS, Site, engines_of
from tests.execution.threads import SLOTS
from tests.support.site.services import ServicesMissingError, missing

COROUTINES = 512
"""The slots of a worker whose coroutines share a loop."""

Opened = Callable[..., AbstractContextManager[Site]]
AtWork = Callable[..., AbstractContextManager[Site]]
ENGINES = ["embedded", pytest.param("engines", marks=pytest.mark.engines)]


@pytest.fixture(scope="session")
def opened(migrated: Path) -> Opened:
    """Open a site on these engines in an empty folder. The caller starts the workers."""

    @contextmanager
    def opened(engines: str, folder: Path, settings: str = SETTINGS) -> Iterator[Site]:
        try:
            with engines_of(engines) as environment:
                data = folder if environment else Path(copytree(migrated, folder / "data"))
                with Site.opened(data, environment, settings) as site:
                    yield site
        except ServicesMissingError as error:
            missing(f"NO PostgreSQL AND Redis: {error}")

    return opened


@pytest.fixture
def site(tmp_path: Path, opened: Opened) -> Iterator[Site]:
    """An embedded site whose workers the test starts."""
    with opened("embedded", tmp_path) as site:
        yield site


@pytest.fixture(scope="package")
def at_work(tmp_path_factory: pytest.TempPathFactory, opened: Opened) -> AtWork:
    """Open a site with one worker."""

    @contextmanager
    def at_work(engines: str, **worker: Any) -> Iterator[Site]:
        with opened(engines, tmp_path_factory.mktemp("site")) as site:
            site.start_worker(**worker)
            yield site

    return at_work


@pytest.fixture(scope="package")
def embedded_slot(at_work: AtWork) -> Iterator[Site]:
    with at_work("embedded", concurrency=1) as site:
        yield site


@pytest.fixture(scope="package")
def engines_slot(at_work: AtWork) -> Iterator[Site]:
    with at_work("engines", concurrency=1) as site:
        yield site


@pytest.fixture(scope="package")
def embedded_threads(at_work: AtWork) -> Iterator[Site]:
    with at_work("embedded", concurrency=SLOTS, pool="threads") as site:
        yield site


@pytest.fixture(scope="package")
def engines_threads(at_work: AtWork) -> Iterator[Site]:
    with at_work("engines", concurrency=SLOTS, pool="threads") as site:
        yield site


@pytest.fixture(scope="package")
def embedded_coroutines(at_work: AtWork) -> Iterator[Site]:
    with at_work("embedded", concurrency=COROUTINES, pool="async") as site:
        yield site


@pytest.fixture(scope="package")
def engines_coroutines(at_work: AtWork) -> Iterator[Site]:
    with at_work("engines", concurrency=COROUTINES, pool="async") as site:
        yield site


@pytest.fixture(scope="package")
def family(at_work: AtWork) -> Iterator[Site]:
    """An embedded site whose worker has slots for a tool and the calls that it starts."""
    with at_work("embedded", concurrency=3) as site:
        yield site


@pytest.fixture(params=ENGINES)
def one_slot(request: pytest.FixtureRequest) -> Site:
    """A site whose worker has one slot, so that the next call lands in the process of the one before."""
    site: Site = request.getfixturevalue(f"{request.param}_slot")
    return site


@pytest.fixture(params=ENGINES)
def threads(request: pytest.FixtureRequest) -> Site:
    """A site whose one worker runs its tools in threads."""
    site: Site = request.getfixturevalue(f"{request.param}_threads")
    return site


@pytest.fixture(params=ENGINES)
def coroutines(request: pytest.FixtureRequest) -> Site:
    """A site whose one worker has its coroutines share a loop."""
    site: Site = request.getfixturevalue(f"{request.param}_coroutines")
    return site


@pytest.fixture(params=[SignalInterrupter, ThreadInterrupter])
def interrupter(request):
    return request.param()
