"""Runs the official conformance suite against the real server: `python -m tests.conformance [embedded] [engines]`.

Without arguments, both stacks are tested. `embedded` is one `mcp serve`. `engines` is Daphne, uvicorn and two workers
on PostgreSQL and Redis, behind a proxy that sends every request to the next server. If a service is missing, the run
fails.
"""

import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.conformance import suite
from tests.support.site import layouts, wire
from tests.support.site.front import front
from tests.support.site.services import ServicesMissingError, own_services
from tests.support.site.stack import Stack

SETTINGS: Final = "tests.conformance.settings"


@contextmanager
def embedded(data: Path) -> Iterator[tuple[Stack, int]]:
    """Yield the site and its port."""
    with layouts.embedded(data, SETTINGS) as stack:
        yield stack, stack.servers[0].port


@contextmanager
def engines(data: Path) -> Iterator[tuple[Stack, int]]:
    """Yield the site and the port of its proxy. Raises `ServicesMissingError`."""
    with ExitStack() as exits:
        environment = exits.enter_context(own_services())
        stack = exits.enter_context(layouts.engines(data, environment, SETTINGS))
        port = exits.enter_context(front(*(server.port for server in stack.servers)))
        yield stack, port


STACKS: Final = {"embedded": embedded, "engines": engines}


def run(kind: str) -> list[str]:
    """Run the suite for every revision on a stack of this kind, and return a line for each problem."""
    with TemporaryDirectory(prefix="mcp-conformance-") as work:
        data = Path(work, "data")
        data.mkdir()
        problems = ["it did not come to its end"]
        with STACKS[kind](data) as (stack, port):
            try:
                await_workers(stack)
                problems = [
                    f"{kind}, {revision}: {problem}"
                    for revision in suite.UNSCORED
                    for problem in suite.run(revision, f"http://127.0.0.1:{port}/mcp", Path(work, revision))
                ]
            finally:
                if problems:
                    tell_logs(stack)
    return problems


def await_workers(stack: Stack) -> None:
    """Wait until a worker has answered a call through each server."""
    for server in stack.servers:
        assert "simple text" in wire.text(stack.call("test_simple_text", server=server).result())


def tell_logs(stack: Stack) -> None:
    for command, output in stack.logs():
        say(f"--- the end of the output of {command}\n{output}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the suite, and return the exit status."""
    parser = ArgumentParser(prog=".ci/conformance", description="Run the official conformance suite.")
    parser.add_argument("stacks", nargs="*", metavar="STACK", help=f"{' or '.join(STACKS)}; both unless named")
    kinds = parser.parse_args().stacks or list(STACKS)
    if not set(kinds) <= STACKS.keys():
        parser.error(f"a stack is {' or '.join(STACKS)}")
    # Exit by an exception on SIGTERM, so that the site's processes are stopped as well.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    suite.install()
    problems: list[str] = []
    for kind in kinds:
        began = time.monotonic()
        say(f"--- conformance, {kind}")
        try:
            problems += run(kind)
        except ServicesMissingError as missing:
            problems.append(f"NO PostgreSQL AND Redis: {missing}; `.ci/conformance embedded` does without")
        say(f"--- conformance, {kind}: {time.monotonic() - began:.0f} s")
    for problem in problems:
        say(f"✗ {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
