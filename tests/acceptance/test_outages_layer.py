"""The channel layer is away, and no other way exists to wake the servers: row E4."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.outages import PATIENT, Site
from tests.acceptance.situations import STEP
from tests.acceptance.test_subscriptions import heard, listen
from tests.support.site.own_engines import Engine
from tests.support.site.wire import text
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(PATIENT),
    pytest.mark.parametrize("running_site", ["redis"], indirect=True),
]

SOON = 20.0
"""Seconds on a busy machine; 2 s are promised."""
MOST_LINES = 60


@pytest.mark.fault("E4")
@pytest.mark.parametrize(
    ("end", "begin_again"),
    [
        pytest.param(Engine.kill, Engine.start, id="restarted"),
        pytest.param(Engine.freeze, Engine.thaw, id="frozen"),
    ],
)
def test_E4_results_and_changes_come_without_the_channel_layer(
    site: Site, end: Callable[[Engine], None], begin_again: Callable[[Engine], None], tmp_path: Path
) -> None:
    import redis

    stack = site.stack
    assert site.layer is not None
    streams = [listen(stack, server=server, toolsListChanged=True) for server in stack.servers]
    for stream in streams:
        assert next(stream.messages())["method"] == "notifications/subscriptions/acknowledged"
    said_before = len(site.log())
    calls = [
        stack.call("sleep_sync", seconds=1.0, path=str(tmp_path / f"steps{server.port}"), step=STEP, server=server)
        for server in stack.servers
    ]
    for call in calls:
        stack.running(call)
    flood = stack.call("flood", count=2000)
    end(site.layer)
    for server, call in zip(stack.servers, calls, strict=True):
        assert text(call.result()) == f"{round(1.0 / STEP)} steps"
        took = time.time() - float((tmp_path / f"steps{server.port}").read_text().splitlines()[-1].split()[0]) - STEP
        site.measure("a result without the channel layer", took)
        assert took < SOON
    assert text(flood.result()) == "2000 reports"
    changed_at = float(text(stack.call("trigger_change").result()))
    for stream in streams:
        assert heard(stream) == "tools/list_changed"
    site.measure("a change without the channel layer", time.time() - changed_at)
    begin_again(site.layer)
    assert stack.call("trigger_change").result()
    for stream in streams:
        assert heard(stream) == "tools/list_changed"
    with redis.Redis.from_url(site.layer.url) as layer:
        eventually(
            lambda: len(layer.keys("*:mcp.server.*")) >= len(stack.servers), "the servers have joined again", SOON
        )
    said = [line for line in site.log()[said_before:].splitlines() if re.search("channel layer|Redis|redis", line)]
    assert len(said) < MOST_LINES, said
