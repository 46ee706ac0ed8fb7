"""The example site with one worker, for all tests of its tools."""

from collections.abc import Iterator

import pytest

from tests.execution.site import Site
from tests.site.calls import ExampleSite


@pytest.fixture(scope="package")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleSite]:
    """One slot: each call runs where the one before ran."""
    with Site.opened(tmp_path_factory.mktemp("example"), {}, "mcpsite.settings") as site:
        site.start_worker(concurrency=1)
        yield ExampleSite(site)
