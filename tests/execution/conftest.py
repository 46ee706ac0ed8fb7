"""A site whose worker has one slot, so that the next call lands in the process of the one before."""

import os
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from tests.acceptance.services import ServicesMissingError
from tests.execution.site import Site, engines_of


def _skip(error: ServicesMissingError) -> None:
    why = f"NO PostgreSQL AND Redis: {error}"
    if os.environ.get("MCP_REQUIRE_ENGINES") == "1":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def embedded_slot(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Site]:
    data = Path(copytree(migrated, tmp_path_factory.mktemp("site") / "data"))
    with Site.opened(data, {}) as site:
        site.start_worker(concurrency=1)
        yield site


@pytest.fixture(scope="session")
def engines_slot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    try:
        with engines_of("engines") as engines, Site.opened(tmp_path_factory.mktemp("site"), engines) as site:
            site.start_worker(concurrency=1)
            yield site
    except ServicesMissingError as error:
        _skip(error)


@pytest.fixture(params=["embedded", pytest.param("engines", marks=pytest.mark.engines)])
def one_slot(request: pytest.FixtureRequest) -> Site:
    """For tests that leave the worker as it was: each engine's has the same one for all of them."""
    site: Site = request.getfixturevalue(f"{request.param}_slot")
    return site


@pytest.fixture
def site(tmp_path: Path, migrated: Path) -> Iterator[Site]:
    """An embedded site, its workers to be started by the test."""
    with Site.opened(Path(copytree(migrated, tmp_path / "data")), {}) as site:
        yield site
