"""Plans of two sites, side by side: which statements each says, and what each looks into. Pure values."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Plans = Mapping[str, frozenset[tuple[str, ...]]]
"""By statement, the ways in which it is carried out: each the accesses to tables, in their order."""

_VALUES = re.compile(r"\(%s(?:, %s)*\)(?:, \(%s(?:, %s)*\))*")
_ACCESS = re.compile(r"\bScan\b|^(?:SEARCH|SCAN)\b")


@dataclass(frozen=True, slots=True)
class Change:
    """A statement that is carried out in other ways."""

    statement: str
    few: frozenset[tuple[str, ...]]
    many: frozenset[tuple[str, ...]]

    def __str__(self) -> str:
        lines = [self.statement]
        for name, ways in (("few", self.few), ("many", self.many)):
            lines += [f"    {name:5} {' · '.join(way) or 'no table is looked at'}" for way in sorted(ways)]
        return "\n".join(lines)


def read(path: Path) -> Plans:
    """What `bench.peers.site.plans` has written."""
    return gathered((statement, plan) for _, statement, plan in map(json.loads, path.read_text().splitlines()))


def gathered(told: Iterable[tuple[str, list[str]]]) -> Plans:
    found: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for statement, plan in told:
        accesses = tuple(line.strip().removeprefix("->").strip() for line in plan if _ACCESS.search(line.strip()))
        found[_VALUES.sub("(…)", statement)].add(accesses)
    return {statement: frozenset(ways) for statement, ways in found.items()}


def changes(few: Plans, many: Plans) -> Iterator[Change]:
    """The statements of both that are carried out otherwise."""
    for statement in sorted(few.keys() & many.keys()):
        if few[statement] != many[statement]:
            yield Change(statement, few[statement], many[statement])
