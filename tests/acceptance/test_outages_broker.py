"""The broker is stopped, killed or frozen while calls start, run, wait and are cancelled: rows C7, C8, C9 and B11."""

import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.acceptance.outages import BACK_IN, BROKERS, PATIENT, REFUSED_IN, Site
from tests.acceptance.situations import INTERRUPT, KILL, LONG, STEP
from tests.acceptance.test_disconnect import assert_stopped, fill_slots
from tests.support.brokers import Line
from tests.support.site import layouts, own_engines
from tests.support.site.inspector import Row
from tests.support.site.own_engines import Engine
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import text
from tests.support.waiting import eventually

pytestmark = [pytest.mark.engines, pytest.mark.timeout(PATIENT)]

UNAVAILABLE = 503
FORGOTTEN = 90.0
"""Seconds until a worker notices that the network lost its connection, and lost messages are published again."""

ENDS: dict[str, tuple[Callable[[Engine], None], Callable[[Engine], None]]] = {
    "stopped": (Engine.stop, Engine.start),
    "killed": (Engine.kill, Engine.start),
    "frozen": (Engine.freeze, Engine.thaw),
}


def by(*ends: str, nightly: Sequence[str] = ()) -> pytest.MarkDecorator:
    params = [pytest.param(*ENDS[end], id=end) for end in ends]
    params += [pytest.param(*ENDS[end], id=end, marks=pytest.mark.nightly) for end in nightly]
    return pytest.mark.parametrize(("end", "begin_again"), params)


def refused(site: Site, server: Server) -> tuple[float, Row]:
    """Make a call while the broker is away. Return the seconds until the error response, and the call's row."""
    began_at = time.monotonic()
    call = site.echo(server)
    assert site.ask("server/discover", server).result()["capabilities"]
    assert site.ask("tools/list", server).result()["tools"]
    served_at = time.monotonic()
    answer = call.answer()
    took = time.monotonic() - began_at
    assert answer["error"]["code"] == UNAVAILABLE
    assert all(fact in answer["error"]["message"] for fact in ("task queue", "try again"))
    site.measure("refused without a broker", took)
    site.measure("others served meanwhile", served_at - began_at)
    return took, site.stack.row(call)


@pytest.mark.fault("C7", "C8")
@by("stopped", "frozen")
def test_C7_C8_a_call_without_a_broker_is_refused_soon_and_the_next_one_served(
    site: Site, end: Callable[[Engine], None], begin_again: Callable[[Engine], None]
) -> None:
    before = site.processes
    end(site.broker)
    for server in site.stack.servers:
        for _ in range(2):
            took, row = refused(site, server)
            assert took < REFUSED_IN
            assert (row.status, row.story) == ("failed", ["queued", "failed"])
            assert row.error["cause"] == "broker"
    begin_again(site.broker)
    for server in site.stack.servers:
        call = site.echo(server)
        assert site.stack.ended(call, BACK_IN).status == "completed"
        assert text(call.result()) == "here"
    assert site.processes == before


@pytest.mark.fault("C9")
@by("killed", nightly=["stopped"])
def test_C9_what_ran_and_what_waited_while_the_broker_was_away_is_done_once(
    site: Site, end: Callable[[Engine], None], begin_again: Callable[[Engine], None], tmp_path: Path
) -> None:
    stack, before = site.stack, site.processes
    running = [
        stack.call("sleep_sync", seconds=3.0, path=str(tmp_path / f"steps{number}"), step=STEP)
        for number in range(stack.slots)
    ]
    for call in running:
        stack.running(call)
    waiting = [stack.call("count", path=str(tmp_path / f"count{number}")) for number in range(3)]
    for call in waiting:
        assert stack.row(call).status == "queued"
    end(site.broker)
    begin_again(site.broker)
    for number, call in enumerate(running):
        assert text(call.result()) == f"{round(3.0 / STEP)} steps"
        assert len((tmp_path / f"steps{number}").read_text().splitlines()) == round(3.0 / STEP)
    for number, call in enumerate(waiting):
        assert stack.ended(call, BACK_IN).status == "completed"
        assert text(call.result()) == "counted"
        assert len((tmp_path / f"count{number}").read_text().splitlines()) == 1
    for call in (*running, *waiting):
        assert stack.row(call).story == ["queued", "running", "completed"]
    site.await_workers()
    call = stack.call("sleep_sync", seconds=LONG, path=str(tmp_path / "steps"), step=STEP)
    stack.running(call, 0.2)
    call.close()
    row = stack.ended(call)
    site.measure("stopped after the broker's return", (row.attempts[0].latency_ms or 0.0) / 1000)
    assert (row.status, row.stage) == ("cancelled", INTERRUPT)
    assert site.processes == before


@pytest.mark.fault("B11")
@by("frozen", nightly=["stopped"])
@pytest.mark.parametrize(("tool", "stage"), [("sleep_sync", INTERRUPT), ("stubborn", KILL)])
def test_B11_a_tool_whose_client_leaves_while_the_broker_is_away_is_stopped_all_the_same(
    site: Site,
    end: Callable[[Engine], None],
    begin_again: Callable[[Engine], None],
    tool: str,
    stage: int,
    steps: Path,
) -> None:
    stack = site.stack
    call = stack.call(tool, seconds=LONG, path=str(steps), step=STEP)
    stack.running(call, 0.2)
    end(site.broker)
    call.close()
    row = stack.ended(call)
    assert (row.status, row.cancel_cause, row.stage) == ("cancelled", "disconnect", stage)
    assert [(attempt.outcome, attempt.settled) for attempt in row.attempts] == [("accepted", True)]
    site.measure(f"{tool} stopped without a broker", (row.attempts[0].latency_ms or 0.0) / 1000)
    assert_stopped(row, steps)
    untold = rf"broker did not .*\bmcp_cancel\b.*'{row.id}'"
    eventually(lambda: re.search(untold, site.log()), "the log says that nobody could be told")
    begin_again(site.broker)


@pytest.mark.fault("B11")
def test_B11_what_waited_when_its_client_left_without_a_broker_is_never_run(site: Site, steps: Path) -> None:
    stack = site.stack
    fill_slots(stack)
    call = stack.call("count", path=str(steps))
    assert stack.row(call).status == "queued"
    site.broker.freeze()
    call.close()
    row = stack.ended(call)
    assert (row.status, row.story) == ("cancelled", ["queued", "cancel", "cancelled"])
    site.broker.thaw()
    stack.settle()
    site.await_workers()
    path = steps.with_name("after")
    assert text(stack.call("count", path=str(path)).result()) == "counted"
    assert not steps.exists()


@pytest.mark.fault("I1")
@by("stopped")
def test_I1_a_call_whose_process_dies_while_the_broker_is_away_is_lost_at_once(
    site: Site, end: Callable[[Engine], None], begin_again: Callable[[Engine], None], steps: Path
) -> None:
    call = site.stack.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
    site.stack.running(call, 0.2)
    process = site.stack.row(call).worker_pid
    assert process is not None
    end(site.broker)
    os.kill(process, signal.SIGKILL)
    row = site.stack.ended(call)
    assert row.status == "lost"
    begin_again(site.broker)


@pytest.mark.nightly
@pytest.mark.fault("C8", "C9")
@pytest.mark.parametrize("kind", BROKERS)
def test_C8_workers_whose_connections_the_network_forgot_consume_again(kind: str, tmp_path: Path) -> None:
    with own_engines.postgresql() as database, BROKERS[kind]() as broker:
        line = Line(broker.port)
        environment = {
            "MCPSITE_DATABASE": database.url,
            "MCPSITE_BROKER": broker.url.replace(str(broker.port), str(line.port)),
        }
        try:
            with layouts.engines(tmp_path, environment) as stack:
                assert text(stack.call("echo", text="before").result()) == "before"
                line.lose()
                # Each lost connection may lose one message.
                for _ in range(stack.expected_workers):
                    call = stack.call("echo", text="after")
                    assert stack.ended(call, within=FORGOTTEN).status == "completed"
                assert_cancels(stack, tmp_path / "steps")
        finally:
            line.hang_up()


def assert_cancels(stack: Stack, steps: Path) -> None:
    call = stack.call("sleep_sync", seconds=LONG, path=str(steps), step=STEP)
    eventually(steps.exists, "it takes a step", FORGOTTEN)
    call.close()
    assert stack.ended(call).status == "cancelled"
    assert_stopped(stack.row(call), steps)
