"""`python -m bench.million`: fills two sites, compares their query plans, then calls them alternately."""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench import command, machine
from bench.figures import aligned, format_number
from bench.million import plans
from bench.million.plans import Change, Plans
from bench.peers.contenders import SETTINGS
from bench.peers.results import spread
from bench.peers.rounds import ready
from bench.peers.target import Target
from bench.stack import Choice, Stack, on_engines, started
from bench.throughput import load

PROGRAM = "bench.million"
FEW = 35_000
"""The ended requests of the small site, some on each day. Databases use other plans for almost empty tables."""
MANY = 1_000_000
LEAST = 1_000
ROUNDS = 5
ALONE = 200
"""Calls in a round on one connection, one after another."""
CROWD = 1_000
"""Calls in a round on sixteen connections."""
CONNECTIONS = 16
PER_CALL_BEFORE = 32
"""Before the rounds, one call is made for each `PER_CALL_BEFORE` filled rows.

The filling leaves free space in PostgreSQL's pages, which is too small for the next sample but large enough for the row
of a waiting call. On a real site, calls would have used that space long before a million of them had ended.
"""
FILL_SECONDS = 3600.0
LISTEN_SECONDS = 20.0
"""How long the site runs after the calls, to record the statements of timers.

Supervision finds lost requests, counts and seals in this time.
"""


@dataclass(frozen=True, slots=True)
class Site:
    """One of the two sites. It is started twice on the same rows."""

    name: str
    stack: Stack
    requests: int
    """The number of requests that have ended before its first start."""
    rounds: dict[str, list[float]] = field(default_factory=dict)
    """The values of all rounds, by measure."""

    def add(self, measure: str, value: float) -> None:
        self.rounds.setdefault(measure, []).append(value)


def main() -> int:
    options = _options()
    return command.run(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    postgresql = options.postgresql if options.stack == "redis" else None
    choice = Choice(options.stack, options.server, options.redis, postgresql, SETTINGS)
    command.say_what(PROGRAM)
    others = machine.Others()
    with _filled(choice, "few", options.few) as few, _filled(choice, "many", options.requests) as many:
        before, after = _plans(few, choice), _plans(many, choice)
        _take(few, many, choice, options.rounds)
    changed = list(plans.changes(before, after))
    print(f"\n{_compared(few, many)}\n\n{_planned(before, after, changed)}")
    print(f"Others used {others.cores():.2f} cores.")
    if options.json:
        options.json.write_text(json.dumps(_told(few, many, changed), indent=1) + "\n")
    return 1 if changed else 0


@contextmanager
def _filled(choice: Choice, name: str, requests: int) -> Iterator[Site]:
    """Yield a site with `requests` ended requests, on databases of its own."""
    with on_engines(choice) as stack:
        began_at = time.monotonic()
        stack.run("-m", "bench.million.fill", str(requests), seconds=FILL_SECONDS)
        _say(f"{name}: {requests:,} requests that have ended, in {time.monotonic() - began_at:.0f} s")
        yield Site(name, stack, requests)


def _plans(site: Site, choice: Choice) -> Plans:
    """Return the plans of the statements that a site sends during calls, after a disconnect and when idle."""
    path = site.stack.folder / "plans"
    recording = replace(
        site.stack, environment={**site.stack.environment, "BENCH_PLANS": str(path)}, processes={}, commands=[]
    )
    with started(recording, choice):
        asyncio.run(_exercise(Target.of(recording)))
    _say(f"{site.name}: plans of {len(found := plans.read(path))} statements")
    return found


async def _exercise(target: Target) -> None:
    await ready(target)
    client = target.client
    for request in (client.request("tools/list"), client.request("server/discover")):
        await load(client, request, connections=1, requests=1)
    left, begun = await client.connect(), asyncio.Event()
    left.send(client.call("progress", {"steps": 1_000, "delay": 0.1}, progress_token=1), lambda message: begun.set())
    await begun.wait()
    left.close()
    await asyncio.sleep(LISTEN_SECONDS)


def _take(few: Site, many: Site, choice: Choice, rounds: int) -> None:
    """Run rounds on both sites. The site that begins alternates."""
    with ExitStack() as running:
        targets = [(site, Target.of(running.enter_context(started(site.stack, choice)))) for site in (few, many)]
        for site, target in targets:
            asyncio.run(_settle(site, target))
        for number in range(rounds):
            for site, target in targets:
                asyncio.run(_round(site, target))
            targets.reverse()
            _say(f"round {number + 1}")


async def _settle(site: Site, target: Target) -> None:
    await ready(target)
    echo = target.client.call("echo", {"text": "hi"})
    used = await load(target.client, echo, connections=CONNECTIONS, requests=site.requests // PER_CALL_BEFORE)
    _say(f"{site.name}: {len(used.latencies):,} calls, {used.rate:,.0f} a second")


async def _round(site: Site, target: Target) -> None:
    echo = target.client.call("echo", {"text": "hi"})
    alone = await load(target.client, echo, connections=1, requests=ALONE)
    crowd = await load(target.client, echo, connections=CONNECTIONS, requests=CROWD)
    site.add("echo alone, p50, ms", statistics.median(alone.latencies) * 1000)
    site.add(f"echo, {CONNECTIONS} connections, p50, ms", statistics.median(crowd.latencies) * 1000)
    site.add(f"echo, {CONNECTIONS} connections, a second", crowd.rate)


def _compared(few: Site, many: Site) -> str:
    rows = [["measure", few.name, many.name, "within the noise"]]
    for measure, values in few.rounds.items():
        others = many.rounds[measure]
        rows.append([measure, _median(values), _median(others), "yes" if overlap(values, others) else "NO"])
    return aligned(rows)


def _median(values: Sequence[float]) -> str:
    return f"{format_number(statistics.median(values))} ±{spread(list(values)):.0%}"


def overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the ranges of two sets of values overlap."""
    return min(one) <= max(other) and min(other) <= max(one)


def _planned(few: Plans, many: Plans, changed: Sequence[Change]) -> str:
    both = few.keys() & many.keys()
    lines = [f"{len(both)} statements of both, {len(changed)} of them carried out otherwise.", *map(str, changed)]
    for name, only in (("few", few.keys() - both), ("many", many.keys() - both)):
        lines += [f"With {name} only: {statement[:160]}" for statement in sorted(only)]
    return "\n".join(lines)


def _told(few: Site, many: Site, changed: Sequence[Change]) -> dict[str, Any]:
    rounds = {site.name: site.rounds for site in (few, many)}
    return command.told(PROGRAM) | {"rounds": rounds, "changed": [str(change) for change in changed]}


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.million", description="Call a site that has ended a million.")
    made.add_argument("--stack", choices=("embedded", "redis"), default="embedded", help="redis: PostgreSQL as well")
    made.add_argument("--server", choices=("daphne", "uvicorn"), default="uvicorn")
    made.add_argument("--requests", type=int, default=MANY, help=f"that have ended; a multiple of 1000 ({MANY})")
    made.add_argument("--few", type=int, default=FEW, help=f"those of the other site; a multiple of 1000 ({FEW})")
    made.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    made.add_argument("--redis", default="redis://127.0.0.1:6379", metavar="URL")
    made.add_argument("--postgresql", default="postgresql://postgres@127.0.0.1", metavar="URL")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every round there as well")
    return made


def _options() -> argparse.Namespace:
    asked = parser()
    options = asked.parse_args()
    if min(options.requests, options.few) < LEAST:
        asked.error(f"at least {LEAST} requests")
    return options


if __name__ == "__main__":
    sys.exit(main())
