"""The example site with one worker, for all tests of its tools."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from shutil import copytree

import pytest

from mcpsite.tools.projects import locate
from tests.execution.site import Site
from tests.site.calls import ExampleSite, make_staff
from tests.site.folders import take_lease

_numbers = count()


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[ExampleSite]:
    """The site with one slot, so that each call runs in the same process as the last one, unless that was killed."""
    data = copytree(migrated, tmp_path_factory.mktemp("example") / "data")
    with Site.opened(data, {}, "mcpsite.settings") as site:
        site.start_worker(concurrency=1)
        site.ask(locate, "sample")  # the sample is only provided if there is no project yet
        yield ExampleSite(site, site.ask(make_staff))


@pytest.fixture
def project(example: ExampleSite) -> Callable[[Mapping[str, str]], Path]:
    """A function that creates a project of the test's own from the text of its files."""

    def make(files: Mapping[str, str]) -> Path:
        folder = example.projects / f"project{next(_numbers)}"
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    return make


@pytest.fixture(scope="session")
def leases(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip the test if the file system has no leases, which block other processes that open a file."""
    path = tmp_path_factory.mktemp("leases") / "file"
    with path.open("w") as file:
        try:
            works = take_lease(file.fileno())
        except (OSError, AttributeError):
            works = False
    if not works:
        pytest.skip(f"NO FILE LEASES on {path.parent}: what is cancelled midway is not seen here")
