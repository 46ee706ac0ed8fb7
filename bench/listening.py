"""`python -m bench.listening`: measures the cost of open listen streams to their server process.

It measures their memory and file descriptors, and the processor time to open them, to keep them open without events and
to notify them of a change. With `--tokens` the streams use a bearer token, which the site's authenticator checks again
while they are open. `bench.peers` compares servers.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace

import psutil

from bench import command, machine
from bench.command import NoMeasurementError
from bench.figures import aligned, format_number
from bench.peers.contenders import SETTINGS
from bench.peers.rounds import ready
from bench.peers.target import Target
from bench.stack import Choice, running
from bench.streams import BETWEEN_CHANGES, Listeners

STREAMS = 1_000
SECONDS = 60.0
CHANGES = 3
CHANGE_SECONDS = 120.0
AT_ONCE = 32
SETTLE_SECONDS = 2.0
AUTHENTICATOR = "mcp_app.auth.tokens.bearer"
PREPARATION_SECONDS = 60.0

Rows = list[list[str]]


def main() -> int:
    options = parser().parse_args()
    return command.run(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    environment = {"MCPSITE_AUTHENTICATOR": AUTHENTICATOR} if options.tokens else {}
    choice = Choice("embedded", options.server, "", options.postgresql, SETTINGS, environment=environment)
    command.say_what("bench.listening")
    others = machine.Others()
    with running(choice) as stack:
        target = Target.of(stack)
        if options.tokens:
            target = replace(target, clients=[replace(each, token=_token(target)) for each in target.clients])
        try:
            rows = asyncio.run(_measure(target, options.streams, options.seconds))
        except TimeoutError as error:
            raise NoMeasurementError("a change did not reach all streams") from error
    print(f"\n{aligned([['measure', 'figure'], *rows])}\nOthers used {others.cores():.2f} cores.")
    return 0


def _token(target: Target) -> str:
    """Create a new user and return a token for it. The tables are created first if they do not exist."""
    run, stack = target.stack.run, target.stack
    for alias in ("default",) if "MCPSITE_DATABASE" in stack.environment else ("default", "mcp"):
        run("manage.py", "migrate", "--database", alias, seconds=PREPARATION_SECONDS)
    whom = ("--username", "bench", "--email", "bench@example.org")
    run("manage.py", "createsuperuser", "--noinput", *whom, seconds=PREPARATION_SECONDS)
    return run("manage.py", "mcp", "token", "create", "bench", "--name", "bench", seconds=PREPARATION_SECONDS).strip()


async def _measure(target: Target, streams: int, seconds: float) -> Rows:
    await ready(target)
    first = Listeners()
    await first.open(target.client, AT_ONCE, at_once=AT_ONCE)  # the first streams make the process load code once
    first.close()
    await asyncio.sleep(SETTLE_SECONDS)
    listeners, server = Listeners(), target.stack.servers[0]
    try:
        return await _costs(listeners, target, server, streams, seconds)
    finally:
        listeners.close()


async def _costs(listeners: Listeners, target: Target, server: psutil.Process, streams: int, seconds: float) -> Rows:
    memory, files, cpu = server.memory_info().rss, server.num_fds(), _cpu_of(server)
    await listeners.open(target.client, streams, at_once=AT_ONCE)
    await asyncio.sleep(SETTLE_SECONDS)
    opening = cpu()
    rows = [
        ["memory of a stream, kb", format_number((server.memory_info().rss - memory) / 1000 / streams)],
        ["file descriptors of a stream", format_number((server.num_fds() - files) / streams)],
        ["to open one, CPU ms", format_number(opening * 1000 / streams)],
    ]
    cpu = _cpu_of(server)
    await asyncio.sleep(seconds)
    rows.append(["silence, CPU ms of a stream a minute", format_number(cpu() * 60_000 / seconds / streams)])
    took, used = [], []
    for _ in range(CHANGES):
        cpu = _cpu_of(server)
        took.append(await listeners.change(target.client, CHANGE_SECONDS))
        await asyncio.sleep(BETWEEN_CHANGES)
        used.append(cpu())
    rows.append(["one change told to one, CPU ms", format_number(statistics.median(used) * 1000 / streams)])
    rows.append([f"one change → all of {streams}, ms", format_number(statistics.median(took) * 1000)])
    return rows


def _cpu_of(server: psutil.Process) -> Callable[[], float]:
    """Return a function that returns the processor time of the server since now, in seconds."""
    before = server.cpu_times()

    def since() -> float:
        now = server.cpu_times()
        return float(now.user + now.system - before.user - before.system)

    return since


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.listening", description="What open listen streams cost.")
    made.add_argument("--server", choices=("daphne", "uvicorn"), default="uvicorn")
    made.add_argument("--streams", type=int, default=STREAMS, help=f"default {STREAMS}")
    made.add_argument("--seconds", type=float, default=SECONDS, help=f"of silence ({SECONDS:g})")
    made.add_argument("--tokens", action="store_true", help="opened with a bearer token, which is asked about again")
    made.add_argument("--postgresql", metavar="URL", help="rows in a new database beside that one instead of SQLite")
    return made


if __name__ == "__main__":
    sys.exit(main())
