"""The stacks: each started once, for all tests that run on it; after every test no request may be open."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.acceptance import stack as stacks
from tests.acceptance.services import ServicesMissingError, own_services
from tests.acceptance.stack import Stack


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.acceptance)


@pytest.fixture(
    scope="session", params=["embedded", pytest.param("engines", marks=pytest.mark.engines)], name="running_stack"
)
def _running_stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    data = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with stacks.embedded(data) as stack:
            yield stack
        return
    try:
        with own_services() as environment, stacks.engines(data, environment) as stack:
            yield stack
    except ServicesMissingError as error:
        why = f"NO PostgreSQL AND Redis, half of the acceptance tests did not run: {error}"
        if os.environ.get("MCP_REQUIRE_ENGINES") == "1":
            pytest.fail(why)
        pytest.skip(why)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the stack's programs said."""
    report = yield
    stack = item.funcargs.get("running_stack")
    if report.failed and isinstance(stack, Stack):
        report.sections += list(stack.logs())
    return report


@pytest.fixture
def stack(running_stack: Stack) -> Iterator[Stack]:
    yield running_stack
    running_stack.settle()


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """The file to which a tool is to write."""
    return tmp_path / "steps"
