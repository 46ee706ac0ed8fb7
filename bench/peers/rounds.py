"""Measures all contenders in turn, for several rounds.

Each contender is started for its turn and stopped after it, so that only one runs at a time. After the deadline no turn
begins.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bench.client import CallFailedError
from bench.command import Say
from bench.engines import NoEngineError
from bench.machine import Others
from bench.peers.contenders import Contender, Engines
from bench.peers.environments import NoEnvironmentError
from bench.peers.measures import MEASURES
from bench.peers.results import Results
from bench.peers.target import Amounts, Target
from bench.readiness import answered
from bench.stack import StackError
from bench.throughput import load

READY_SECONDS = 180.0
MEASURE_SECONDS = 240.0
WARM_UP = 240
WARM_UP_SECONDS = 10.0
CONNECTIONS = 16
ABSENT = (NoEngineError, NoEnvironmentError)
FAILED = (CallFailedError, StackError, OSError, ValueError, TimeoutError, KeyError)


def turns(contenders: Sequence[Contender], rounds: int) -> Iterator[tuple[int, Contender]]:
    """Yield each contender once per round. Each round begins with the next contender, so that none is always first."""
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            yield number, contender


@dataclass(slots=True)
class Run:
    """Takes the turns."""

    engines: Engines
    amounts: Amounts
    deadline: float
    """The time on the monotonic clock after which no turn begins."""
    say: Say
    results: Results = field(default_factory=Results)

    def take(self, contenders: Sequence[Contender], rounds: int) -> Results:
        absent: set[str] = set()
        for number, contender in turns(contenders, rounds):
            if contender.name in absent:
                continue
            if time.monotonic() > self.deadline:
                self.results.fail(contender.name, "", number, "no time was left")
                continue
            try:
                self._turn(number, contender)
            except ABSENT as error:
                absent.add(contender.name)
                self._fail(contender.name, "", number, error)
            except FAILED as error:
                self._fail(contender.name, "", number, error)
        return self.results

    def _turn(self, number: int, contender: Contender) -> None:
        with contender.start(self.engines) as target:
            self.results.commands[contender.name] = list(target.stack.commands)
            asyncio.run(self._measure(number, contender, target))

    async def _measure(self, number: int, contender: Contender, target: Target) -> None:
        await ready(target)
        for name in contender.measures:
            others = Others()
            try:
                async with asyncio.timeout(MEASURE_SECONDS):
                    figures = await MEASURES[name](target, self.amounts)
            except FAILED as error:
                self._fail(contender.name, name, number, error)
                target.stack.check()
            else:
                self.results.add(contender.name, name, figures, others.cores())
                self.say(f"round {number + 1}  {contender.name}  {name}")

    def _fail(self, contender: str, measure: str, number: int, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        self.results.fail(contender, measure, number, reason)
        self.say(f"round {number + 1}  {contender}  {measure}  FAILED: {reason.splitlines()[0]}")


async def ready(target: Target) -> None:
    """Wait until every server process responds, and warm it up. Raises `StackError`."""
    for client in target.clients:
        echo = client.call("echo", {"text": "hi"})
        await answered(target.stack, client, echo, READY_SECONDS)
        await load(client, echo, connections=CONNECTIONS, requests=WARM_UP, seconds=WARM_UP_SECONDS)
