"""`python -m bench.profile`: shows the statements, processor time and waiting time of a call, step by step.

The numbers of SQL statements and Redis commands do not depend on the load of the machine; the times do. Two sites are
started one after the other, because recording every statement costs time. While statements are recorded, calls are made
one after another, and the statements of an idle site in the same time are subtracted.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path

from bench import command, roles, wire
from bench.figures import aligned, format_number, percentile
from bench.peers import environments
from bench.peers.contenders import SETTINGS
from bench.peers.idleness import recorded
from bench.peers.rounds import ready
from bench.peers.target import Target
from bench.stack import Choice, own_folder, running
from bench.throughput import load
from bench.wire import Said

CALLS = 200
IDLE_SECONDS = 10.0
"""How long statements are recorded while the site is idle."""
SETTLE_SECONDS = 3.0
"""The pause after the warm-up, in which its deliveries are stored and its calls are counted."""
STEP_SECONDS = 60.0
MANY = 16
FLAME_SECONDS = 15.0
SMALLEST = 0.05
"""Statements that occur less often per call are left out, because timers send them."""
ELSEWHERE = "short-lived"
"""The role for connections that were closed before their process was determined."""

Rows = list[list[str]]


def main() -> int:
    options = parser().parse_args()
    return command.run(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    postgresql = options.postgresql if options.stack == "redis" else None
    choice = Choice(options.stack, options.server, options.redis, postgresql, SETTINGS)
    command.say_what("bench.profile")
    said, costs = _what_is_said(choice, options.calls), _what_it_costs(choice, options.calls, options.flames)
    for table in chain(said, costs):
        print(f"\n{table}", flush=True)
    return 0


def _what_is_said(choice: Choice, calls: int) -> Iterator[str]:
    """Yield tables of the SQL statements and, with Redis, the Redis commands of one call."""
    with ExitStack() as borrowed:
        path = borrowed.enter_context(own_folder()) / "statements"
        stack = borrowed.enter_context(running(replace(choice, environment={"BENCH_STATEMENTS": str(path)})))
        target = Target.of(stack)
        asyncio.run(ready(target))
        time.sleep(SETTLE_SECONDS)
        with _listening(target, path) as idle:
            time.sleep(IDLE_SECONDS)
        began_at = time.monotonic()
        with _listening(target, path) as busy:
            asyncio.run(_calls(target, 1, calls))
        timers = (time.monotonic() - began_at) / IDLE_SECONDS
        for what, quiet, said in zip(("statements", "commands to Redis"), idle, busy, strict=True):
            of_a_call = {key: (times - quiet[key] * timers) / calls for key, times in said.items()}
            if of_a_call:
                yield _said(f"{what} of a call", of_a_call)


@contextmanager
def _listening(target: Target, path: Path) -> Iterator[tuple[Said, Said]]:
    """Count SQL statements and Redis commands while the block runs. The counters are filled at its end."""
    statements, commands = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    broker = target.stack.environment.get("MCPSITE_BROKER")
    before = len(recorded(path))
    with wire.redis_commands(broker) if broker else nullcontext(Counter[tuple[int, str]]()) as heard:
        yield statements, commands
    pids = roles.by_pid(target.stack)
    statements.update((pids.get(pid, roles.TOOLS), wire.shape(each)) for pid, each in recorded(path)[before:])
    commands.update(wire.by_role(heard, roles.ports(target.stack), ELSEWHERE))


def _what_it_costs(choice: Choice, calls: int, flames: Path | None) -> Iterator[str]:
    """Yield tables of the processor time, wake-ups and waiting time of one call."""
    with running(choice) as stack:
        target = Target.of(stack)
        asyncio.run(ready(target))
        time.sleep(SETTLE_SECONDS)
        before = roles.used(stack)
        alone = asyncio.run(_calls(target, 1, calls))
        between = roles.used(stack)
        asyncio.run(_calls(target, MANY, calls * MANY))
        used = {"alone": between.since(before), f"of {MANY}": roles.used(stack).since(between)}
        yield _costs(used, {"alone": calls, f"of {MANY}": calls * MANY})
        steps = json.loads(stack.run("-m", "bench.steps", seconds=STEP_SECONDS))
        yield _durations({"the client, alone": [each * 1000 for each in alone], **steps})
        if flames is not None:
            yield _burn(target, flames)


async def _calls(target: Target, connections: int, calls: int) -> list[float]:
    echo = target.client.call("echo", {"text": "hi"})
    return (await load(target.client, echo, connections=connections, requests=calls)).latencies


def _burn(target: Target, folder: Path) -> str:
    """Draw a flame graph of each process under load, with py-spy."""
    spy = [str(Path(environments.python("profile")).with_name("py-spy"))]
    folder.mkdir(parents=True, exist_ok=True)
    commands = []
    for pid, role in sorted(roles.by_pid(target.stack).items()):
        drawn = folder / f"{role}-{pid}.svg"
        commands.append([*spy, "record", "--pid", str(pid), "--duration", str(FLAME_SECONDS), "--output", str(drawn)])
    spies = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    until = time.monotonic() + FLAME_SECONDS
    while time.monotonic() < until:
        asyncio.run(_calls(target, MANY, CALLS))
    for each in spies:
        each.wait(timeout=STEP_SECONDS)
    return f"flame graphs: {folder}"


def _said(title: str, of_a_call: dict[tuple[str, str], float]) -> str:
    names = [*roles.ROLES, *sorted({role for role, _ in of_a_call} - set(roles.ROLES))]
    often = {key: times for key, times in of_a_call.items() if times >= SMALLEST}
    shapes = dict.fromkeys(shape for _, shape in often)
    rows = [[shape, *(_times(often.get((role, shape), 0.0)) for role in names)] for shape in shapes]
    totals = [sum(times for (role, _), times in often.items() if role == name) for name in names]
    return aligned([[title, *names], *rows, [f"all: {sum(totals):.1f}", *map(_times, totals)]])


def _times(number: float) -> str:
    return f"{number:.1f}" if number else ""


def _costs(used: dict[str, roles.Used], calls: dict[str, int]) -> str:
    who = [role for role in roles.COSTING if any(found.cpu_seconds[role] for found in used.values())]
    rows = [["a call costs", *who]]
    for name, found in used.items():
        cpu = [format_number(found.cpu_seconds[role] * 1000 / calls[name]) for role in who]
        wake_ups = [f"{found.wake_ups[role] / calls[name]:.1f}" for role in who]
        rows += [[f"processor time, ms, {name}", *cpu], [f"wake-ups, {name}", *wake_ups]]
    return aligned(rows)


def _durations(steps: dict[str, list[float]]) -> str:
    rows = [["a call rests, ms", "p50", "p99"]]
    for name, found in steps.items():
        rows.append([name, *(format_number(percentile(found, percent)) for percent in (50, 99))])
    return aligned(rows)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.profile", description="Say where a call goes.")
    made.add_argument("--stack", choices=("embedded", "redis"), default="embedded", help="redis: PostgreSQL as well")
    made.add_argument("--server", choices=("daphne", "uvicorn"), default="uvicorn")
    made.add_argument("--calls", type=int, default=CALLS, help=f"one after another; default {CALLS}")
    made.add_argument("--flames", type=Path, metavar="DIR", help="flame graphs of every process there, by py-spy")
    made.add_argument("--redis", default="redis://127.0.0.1:6379", metavar="URL")
    made.add_argument("--postgresql", default="postgresql://postgres@127.0.0.1", metavar="URL")
    return made


if __name__ == "__main__":
    sys.exit(main())
