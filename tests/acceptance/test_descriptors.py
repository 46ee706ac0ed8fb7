"""A server with few file descriptors rejects excess requests with 503 and serves the others."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.crowds import Crowd, request_bytes
from tests.support.site import guide, layouts
from tests.support.site.stack import Server, Stack
from tests.support.site.wire import call, text
from tests.support.waiting import eventually

LIMIT: Final = 64
NARROW: Final = ("sh", "-c", f'ulimit -n {LIMIT} && exec "$0" "$@"')
CLIENTS: Final = 120
PATIENCE: Final = 60.0
PROMPT_SECONDS: Final = 5.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Stack]:
    """A site whose first server and worker have enough descriptors."""
    with layouts.narrow(tmp_path) as stack:
        yield stack


def start_narrow(site: Stack, program: str) -> Server:
    """Start another server of the site by its command in docs/how-to/deployment.md, with few descriptors."""
    return Server(site.start(*NARROW, *guide.server_commands()[program]), guide.SAYS[program])


def outcomes_of_a_crowd(server: Server, steps: Path) -> Counter[str]:
    """Make many calls at once that stay open, then close all at once. Return how often each status occurred."""
    crowd = Crowd(server.port)

    async def call_once(number: int) -> str:
        body = call("sleep_sync", seconds=120, path=str(steps.with_name(f"steps{number}")), step=0.05)
        try:
            reader, _ = await crowd.send(request_bytes(body))
            return (await reader.readline()).decode().split()[1]
        except (OSError, IndexError):
            return "closed"

    async def come_and_leave() -> Counter[str]:
        async with asyncio.timeout(PATIENCE):
            outcomes = await asyncio.gather(*(call_once(number) for number in range(CLIENTS)))
            await crowd.leave()
        return Counter(outcomes)

    return asyncio.run(come_and_leave())


@pytest.mark.fault("I4")
def test_I4_with_64_descriptors_a_crowd_is_refused_with_503_and_those_that_leave_are_cancelled_at_once(
    site: Stack, steps: Path
) -> None:
    server = start_narrow(site, "python")
    assert "only 64 files and sockets" in server.program.output()
    outcomes = outcomes_of_a_crowd(server, steps)
    eventually(lambda: not site.ask("open requests"), "all calls are cancelled", PROMPT_SECONDS)
    assert outcomes.keys() == {"200", "503"}, outcomes
    assert outcomes["200"] >= 5, outcomes
    assert text(site.call("echo", server=server, text="next").result()) == "next"
    assert "Traceback" not in server.program.output()
    server.stop()


@pytest.mark.fault("I4")
def test_I4_on_another_server_the_app_refuses_what_would_find_no_descriptor(site: Stack, steps: Path) -> None:
    server = start_narrow(site, "uvicorn")
    assert "only 64 files and sockets" in server.program.output()
    outcomes = outcomes_of_a_crowd(server, steps)
    eventually(lambda: not site.ask("open requests"), "all calls are cancelled", PATIENCE)
    assert outcomes.keys() <= {"200", "503", "closed"}, outcomes
    assert outcomes["503"] >= 5, outcomes
    assert text(site.call("echo", server=server, text="next").result()) == "next"
    server.stop()
