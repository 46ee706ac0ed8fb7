"""A client that asked for debug messages gets a heartbeat every 2 s, with the state of its call's worker.

In a session with level debug, the heartbeat reports whether any worker is alive.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.acceptance.test_legacy import client
from tests.support.site.layouts import closing, two_servers
from tests.support.site.legacy_wire import Client, events
from tests.support.site.stack import Stack
from tests.support.site.wire import META, Connection, message

__all__ = ["client"]

DEBUG: Final = {META + "logLevel": "debug"}
INTERVAL: Final = 2.0
IDLE: Final = 6.5
EARLY: Final = 0.05


def debug_call(site: Stack, tool: str, **arguments: Any) -> Connection:
    return site.post(message("tools/call", meta=DEBUG, name=tool, arguments=arguments))


def beats(call: Connection) -> Iterator[Mapping[str, Any]]:
    """Yield the data of the heartbeats until the call's response, after which the stream ends."""
    for sent in call.messages():
        if "result" in sent:
            assert next(call.messages(), None) is None
            return
        assert sent["method"] == "notifications/message"
        if sent["params"]["logger"] == "heartbeat":
            assert sent["params"]["level"] == "debug"
            assert sent["params"]["data"]["requestId"] == call.request_id
            yield sent["params"]["data"]


def beats_of_session(stream: Connection, seconds: float) -> list[float]:
    """Read an idle stream of a session for that long. Return the unix times of the heartbeats, its only messages."""
    heard, until = [], time.time() + seconds
    for event in events(stream):
        if event is not None and event.message is not None:
            assert event.message["method"] == "notifications/message"
            assert event.message["params"] == {"level": "debug", "logger": "heartbeat", "data": {"worker": "alive"}}
            heard.append(time.time())
        if time.time() > until:  # reached without heartbeats too, because the stream sends comments
            return heard
    raise AssertionError("the stream ended")


def test_a_session_idle_for_six_seconds_gets_beats_from_two_seconds_on_which_end_with_it(
    stack: Stack, client: Client
) -> None:
    stream = client.get(stack.servers[0])
    assert stream.is_stream
    asked_at = time.time()
    assert client.request("logging/setLevel", stack.servers[-1], level="debug").result() == {}
    heard = beats_of_session(stream, IDLE)
    assert len(heard) >= 2
    assert heard[0] - asked_at >= INTERVAL - EARLY
    assert client.delete(stack.servers[-1]) == 200
    assert {event.message["params"]["logger"] for event in events(stream) if event and event.message} <= {"heartbeat"}


def test_each_beat_is_on_one_of_a_sessions_streams_whatever_process_has_them(stack: Stack, client: Client) -> None:
    assert client.request("logging/setLevel", stack.servers[0], level="debug").result() == {}
    with two_servers(stack) as (first, other):
        streams = []
        for server in (first, other):
            streams.append(client.get(server))
            # One after another, because the newest stream gets the heartbeats.
            assert next(event for event in events(streams[-1]) if event).message is None
        assert len(beats_of_session(streams[1], IDLE)) >= 2
        assert beats_of_session(streams[0], 0) == []
        streams[1].close()
        assert len(beats_of_session(streams[0], IDLE)) >= 2
        streams[0].close()


@pytest.mark.timeout(120)
def test_the_beats_of_a_session_end_with_its_workers_and_with_its_server(tmp_path: Path) -> None:
    with closing(Stack(tmp_path, {}, workers=1)) as site:
        server = site.start_embedded("--no-worker")
        site.serve_from(site.start_embedded("--no-worker"))
        site.start_worker()
        site.restore_workers()
        client = Client.opened(site, server)
        assert client.request("logging/setLevel", server, level="debug").result() == {}
        stream = client.get(server)
        assert beats_of_session(stream, INTERVAL + 1)
        site.worker_programs.pop().kill()
        beats_of_session(stream, INTERVAL)  # one may already be on its way
        assert beats_of_session(stream, 2 * INTERVAL) == []
        site.start_worker()
        site.restore_workers()
        assert beats_of_session(stream, INTERVAL + 1)
        server.program.kill()
        with suppress(ConnectionError):
            assert [event for event in events(stream) if event] == []
        assert client.delete() == 200


def test_an_idle_call_gets_beats_from_two_seconds_on_which_end_with_it(stack: Stack, tmp_path: Path) -> None:
    asked_at = time.monotonic()
    call = debug_call(stack, "sleep", seconds=IDLE, path=str(tmp_path / "steps"), step=0.5)
    heard = [(time.monotonic() - asked_at, beat) for beat in beats(call)]
    assert len(heard) >= 2
    assert heard[0][0] >= INTERVAL - EARLY
    assert {(beat["status"], beat["worker"]) for _, beat in heard} <= {("queued", "none"), ("running", "alive")}


@pytest.mark.timeout(120)
def test_beats_of_a_call_whose_worker_was_killed_say_that_it_is_silent_until_the_call_is_lost(tmp_path: Path) -> None:
    with closing(Stack(tmp_path, {"MCP_TEST_LOST_AFTER": "9"}, workers=1)) as site:
        site.serve_from(site.start_embedded("--no-worker"))
        site.start_worker()
        site.restore_workers()
        call = debug_call(site, "sleep", seconds=60, path=str(tmp_path / "steps"), step=1)
        site.running(call)
        heard = beats(call)
        assert next(beat for beat in heard if beat["status"] == "running")["worker"] == "alive"
        site.worker_programs.pop().kill()
        after = list(heard)
        assert (after[-1]["status"], after[-1]["worker"]) == ("running", "silent")
        assert site.ended(call).status == "lost"
