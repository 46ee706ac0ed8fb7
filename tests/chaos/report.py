"""Summarises the events of a run as a table."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.chaos.faults import Faults
from tests.chaos.journal import Entry
from tests.chaos.ledger import Ledger
from tests.chaos.rows import Rows
from tests.chaos.verdict import work


def lines(ledger: Ledger, faults: Faults, rows: Rows, journal: dict[str, Entry]) -> Iterator[str]:
    yield f"calls: {len(ledger.calls)}, rows: {len(rows.requests)}, runs: {len(journal)}"
    yield _counted("told", (call.fate for call in ledger.calls))
    yield _counted("by client", (call.kind for call in ledger.calls))
    yield _counted("rows", (row.status for row in rows.requests))
    yield _counted("causes", (row.cancel_cause for row in rows.requests if row.cancel_cause))
    yield _counted("audit", (attempt.outcome for attempt in rows.attempts))
    yield _counted("faults", (done.fault.kind for done in faults.done if done.what not in ("failed", "nobody")))
    yield "besides: " + ", ".join(f"{what} {times}" for what, times in sorted(ledger.counts.items()))
    yield "cancelled → last step, ms            n     p50     p99     max"
    for (tool, stage), seconds in sorted(work.latencies(rows, journal).items()):
        yield f"  {tool:20} stage {stage}  {len(seconds):5} {_spread(seconds)}"
    if overruns := [each for each in work.overruns(rows, journal) if each > 0]:
        yield f"lost rows whose work went on: {len(overruns)}, at most {max(overruns):.2f} s"


def _counted(title: str, words: Iterable[str]) -> str:
    return f"{title}: " + ", ".join(f"{word} {times}" for word, times in Counter(words).most_common())


def _spread(seconds: list[float]) -> str:
    ordered = sorted(each * 1000 for each in seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{statistics.median(ordered):7.0f} {p99:7.0f} {ordered[-1]:7.0f}"
