"""A client that asked for debug messages is told, every 2 s from +2 s, whether its worker is alive."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.acceptance.stack import Stack, closing
from tests.acceptance.wire import META, Connection, message

DEBUG: Final = {META + "logLevel": "debug"}
INTERVAL: Final = 2.0
IDLE: Final = 6.5
EARLY: Final = 0.05


def debug_call(site: Stack, tool: str, **arguments: Any) -> Connection:
    return site.post(message("tools/call", meta=DEBUG, name=tool, arguments=arguments))


def beats(call: Connection) -> Iterator[Mapping[str, Any]]:
    """What the heartbeat says until the call's answer, which is the end of the stream."""
    for sent in call.messages():
        if "result" in sent:
            assert next(call.messages(), None) is None
            return
        assert sent["method"] == "notifications/message"
        if sent["params"]["logger"] == "heartbeat":
            assert sent["params"]["level"] == "debug"
            assert sent["params"]["data"]["requestId"] == call.request_id
            yield sent["params"]["data"]


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
