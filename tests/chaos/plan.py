"""Plans a run by its seed alone. The same seed gives the same errands and faults in the same order.

The seed does not determine how far a run gets in its time, or in which state it finds the site.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

STACKS: Final = ("embedded", "redis", "rabbitmq")

KINDS: Final[Mapping[str, int]] = {
    "sse": 30,
    "json": 14,
    "session": 14,
    "stateless": 8,
    "task": 12,
    "asker": 8,
    "listener": 6,
    "hostile": 8,
}
"""The kinds of errands, with their weights."""
TOOLS: Final[Mapping[str, int]] = {
    "chaos_quick": 12,
    "chaos_cooperative": 12,
    "chaos_blocking": 14,
    "chaos_async": 10,
    "chaos_stubborn": 10,
    "chaos_blocked": 6,
    "chaos_family": 8,
    "chaos_program": 6,
    "chaos_transaction": 8,
    "chaos_failing": 4,
    "chaos_large": 4,
}
ENDINGS: Final[Mapping[str, int]] = {
    "stay": 40,
    "fin": 14,
    "rst": 14,
    "half": 6,
    "word": 14,
    "command": 2,
    "admin": 10,
}
"""The ways to end a call, with their weights. The client waits, disconnects, or cancels in one of three ways."""
EVERYWHERE: Final[Mapping[str, int]] = {
    "kill a child": 10,
    "freeze a child": 8,
    "terminate a child": 4,
    "kill a worker": 7,
    "freeze a worker": 6,
    "terminate a worker": 6,
    "kill a server": 7,
    "freeze a server": 5,
    "terminate a server": 6,
}
FAULTS: Final[Mapping[str, Mapping[str, int]]] = {
    "embedded": {**EVERYWHERE, "lock the rows": 6, "lock the site": 4, "litter the broker": 4},
    "redis": {
        **EVERYWHERE,
        "stop the broker": 4,
        "kill the broker": 4,
        "freeze the broker": 4,
        "stop the database": 4,
        "kill the database": 3,
        "freeze the database": 4,
        "cut the database": 6,
    },
}
FAULTS_OF: Final = {**FAULTS, "rabbitmq": FAULTS["redis"]}


@dataclass(frozen=True, slots=True)
class Errand:
    """One action of one client. Durations are in seconds. Server numbers are taken modulo the number of servers."""

    number: int
    tag: str
    kind: str
    tool: str
    seconds: float
    ending: str
    after: float
    """The time from sending to `ending`."""
    pause: float
    """The time until the next errand."""
    server: int
    other: int
    twist: float
    """A random number from 0 to 1, for decisions of one kind of errand."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, which lasts for `seconds`, and the pause before it."""

    number: int
    kind: str
    target: int
    seconds: float
    pause: float


def errands(seed: int, client: str, *, only: str | None = None) -> Iterator[Errand]:
    """Yield errands without end."""
    chance = random.Random(f"{seed}/{client}")
    number = 0
    while True:
        number += 1
        yield Errand(
            number=number,
            tag=f"{client}-{number}",
            kind=only or _one(chance, KINDS),
            tool=_one(chance, TOOLS),
            seconds=round(chance.uniform(0.1, 1.0) if chance.random() < 0.6 else chance.uniform(1.0, 5.0), 2),
            ending=_one(chance, ENDINGS),
            after=round(chance.choice((0.0, 0.05, 0.3, 1.0)) * chance.uniform(0.2, 2.0), 3),
            pause=round(chance.uniform(0.0, 0.4), 2),
            server=chance.randrange(60),
            other=chance.randrange(60),
            twist=round(chance.random(), 3),
        )


def faults(seed: int, stack: str) -> Iterator[Fault]:
    """Yield faults without end."""
    chance = random.Random(f"{seed}/faults/{stack}")
    number = 0
    while True:
        number += 1
        yield Fault(
            number,
            _one(chance, FAULTS_OF[stack]),
            chance.randrange(60),
            round(chance.choice((0.3, 1.0, 2.0, 6.0)) * chance.uniform(0.7, 1.3), 2),
            round(chance.uniform(0.3, 2.5), 2),
        )


def _one(chance: random.Random, weights: Mapping[str, int]) -> str:
    return chance.choices(list(weights), list(weights.values()))[0]
