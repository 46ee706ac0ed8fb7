"""Compares the query plans of two sites: the tables and indexes that each statement uses. Does no I/O except `read`."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Plans = Mapping[str, frozenset[tuple[str, ...]]]
"""The plans of each statement. A plan contains the accesses to tables, in order."""

_VALUES = re.compile(r"\(%s(?:, %s)*\)(?:, \(%s(?:, %s)*\))*")
_ACCESS = re.compile(r"\bScan\b|^(?:SEARCH|SCAN)\b")
_BY_INDEX = re.compile(r"^(?:Index Only Scan|Index Scan)(?: Backward)? using (?P<index>\S+) on \S+(?: \S+)?$")
_OF_BITMAP = re.compile(r"^Bitmap Index Scan on (?P<index>\S+)$")


@dataclass(frozen=True, slots=True)
class Change:
    """A statement whose plans differ between the two sites."""

    statement: str
    few: frozenset[tuple[str, ...]]
    many: frozenset[tuple[str, ...]]

    def __str__(self) -> str:
        lines = [self.statement]
        for name, ways in (("few", self.few), ("many", self.many)):
            lines += [f"    {name:5} {' · '.join(way) or 'no table is looked at'}" for way in sorted(ways)]
        return "\n".join(lines)


def read(path: Path) -> Plans:
    """Read the file that `bench.peers.site.plans` has written."""
    return gathered((statement, plan) for _, statement, plan in map(json.loads, path.read_text().splitlines()))


def gathered(told: Iterable[tuple[str, list[str]]]) -> Plans:
    found: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for statement, plan in told:
        accesses = (line.strip().removeprefix("->").strip() for line in plan if _ACCESS.search(line.strip()))
        used = tuple(map(_index_used, (each for each in accesses if not each.startswith("Bitmap Heap Scan"))))
        found[_VALUES.sub("(…)", statement)].add(used)
    return {statement: frozenset(ways) for statement, ways in found.items()}


def _index_used(access: str) -> str:
    """Return the index that PostgreSQL uses, for any kind of index scan, or the access itself if it names none.

    For SQLite this is always the access itself.
    """
    found = _BY_INDEX.match(access) or _OF_BITMAP.match(access)
    return f"index {found['index']}" if found else access


def changes(few: Plans, many: Plans) -> Iterator[Change]:
    """Yield the statements of both sites whose plans differ."""
    for statement in sorted(few.keys() & many.keys()):
        if few[statement] != many[statement]:
            yield Change(statement, few[statement], many[statement])
