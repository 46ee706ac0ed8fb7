"""A disconnect stops its own coroutine, and no other one on the same event loop."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.situations import COOPERATIVE, LONG
from tests.acceptance.test_disconnect import assert_stopped
from tests.acceptance.test_threads import situation
from tests.support.site import layouts
from tests.support.site.stack import Stack


@pytest.fixture(scope="module")
def running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with layouts.embedded(tmp_path_factory.mktemp("async"), pool="async") as stack:
        yield stack


@pytest.mark.fault("A5")
def test_disconnect_stops_a_coroutine_and_leaves_its_neighbours(stack: Stack, tmp_path: Path) -> None:
    doing = situation("async")
    calls = {}
    for name in ("leaves", "stays"):
        steps = tmp_path / name
        calls[name] = stack.call(doing.tool, **doing.arguments(steps, LONG))
        doing.await_begun(stack, calls[name], steps)
    calls["leaves"].close()
    row = stack.ended(calls["leaves"])
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "disconnect", COOPERATIVE)
    assert_stopped(row, tmp_path / "leaves")
    assert stack.row(calls["stays"]).status == "running"
    calls["stays"].close()
    assert stack.ended(calls["stays"]).cancel_cause == "disconnect"
