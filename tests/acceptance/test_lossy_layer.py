"""A channel layer that accepts every wake-up and delivers none: it is full, or its messages expire unread. Row E4.

The workers act as if they ran on another host, so that only the layer could wake the servers.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.situations import STEP
from tests.acceptance.test_subscriptions import heard, listen
from tests.support.site import layouts
from tests.support.site.services import ServicesMissingError, missing, own_services
from tests.support.site.stack import Stack
from tests.support.site.wire import text

pytestmark = [pytest.mark.engines, pytest.mark.timeout(200)]

SOON = 10.0
"""Seconds on a busy machine; 2 s are promised."""
DELIVERED_IN = 1.0


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A site with a server and no worker."""
    try:
        with (
            own_services() as environment,
            layouts.apart(tmp_path_factory.mktemp("lossy"), environment, workers=0) as stack,
        ):
            yield stack
    except ServicesMissingError as error:
        missing(f"NO PostgreSQL AND Redis, no lossy layer was tested: {error}")


@pytest.fixture(params=[pytest.param({"capacity": 0}, id="full"), pytest.param({"expiry": 0}, id="expiring")])
def lossy(request: pytest.FixtureRequest, serving: Stack) -> Iterator[Stack]:
    """The site, with a worker whose Redis channel layer loses every message."""
    url, options = serving.environment["MCPSITE_CHANNELS"], request.param
    assert asyncio.run(delivers(url, {}))
    assert not asyncio.run(delivers(url, options))
    serving.of_workers = {"MCP_TEST_ELSEWHERE": "1", "MCP_TEST_LAYER": json.dumps(options)}
    serving.expected_workers = 1
    serving.start_worker()
    serving.restore_workers()
    yield serving
    serving.settle()
    worker = serving.worker_programs.pop()
    assert worker.stop() == 0, worker.output()


async def delivers(url: str, options: dict[str, Any]) -> bool:
    """Whether a channel layer with these options delivers a message that is sent to a group."""
    from channels_redis.core import RedisChannelLayer

    layer = RedisChannelLayer(hosts=[url], **options)
    channel = await layer.new_channel()
    await layer.group_add("probe", channel)
    receiving = asyncio.ensure_future(layer.receive(channel))
    try:
        await layer.group_send("probe", {"type": "probe"})
        done, _ = await asyncio.wait([receiving], timeout=DELIVERED_IN)
        return bool(done)
    finally:
        receiving.cancel()
        await asyncio.wait([receiving])
        await layer.group_discard("probe", channel)
        await layer.close_pools()


@pytest.mark.fault("E4")
def test_E4_results_and_changes_come_though_the_channel_layer_loses_every_message(
    lossy: Stack, tmp_path: Path, measured: dict[str, list[float]]
) -> None:
    stream = listen(lossy, toolsListChanged=True)
    assert next(stream.messages())["method"] == "notifications/subscriptions/acknowledged"
    steps = tmp_path / "steps"
    call = lossy.call("sleep_sync", seconds=1.0, path=str(steps), step=STEP)
    assert text(call.result()) == f"{round(1.0 / STEP)} steps"
    took = time.time() - float(steps.read_text().splitlines()[-1].split()[0]) - STEP
    assert took < SOON
    assert text(lossy.call("flood", count=2000).result()) == "2000 reports"
    changed_at = float(text(lossy.call("trigger_change").result()))
    assert heard(stream) == "tools/list_changed"
    told = time.time() - changed_at
    assert told < SOON
    measured.setdefault("a result though the layer loses every message", []).append(took)
    measured.setdefault("a change though the layer loses every message", []).append(told)
