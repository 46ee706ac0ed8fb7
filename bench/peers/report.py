"""Formats the results as text: a table for each measure, then the goals, then the failures."""

from collections.abc import Sequence

from bench.figures import aligned, format_number
from bench.peers.goals import Verdict
from bench.peers.measures import MEASURES
from bench.peers.results import OTHERS, Results, spread, summary

UNITS = {
    "rate": "/s",
    "bytes": "B",
    "tools": "",
    "lost": "",
    "calls": "",
    "streams": "",
    "at": "",
    "left": "",
    "failed": "",
}
"""Units by the first word of a figure's name."""
MILLISECONDS = {"p50", "p99", "all", "open", "start", "cancel"}
REASON_CHARS = 160


def text(results: Results, verdicts: Sequence[Verdict]) -> str:
    parts = [_measure(name, results) for name in MEASURES]
    parts += [_verdicts(verdicts), _failures(results)]
    return "\n\n".join(part for part in parts if part)


def _measure(name: str, results: Results) -> str:
    rows = {contender: found[name] for contender, found in results.values.items() if name in found}
    if not rows:
        return ""
    figures = list(dict.fromkeys(figure for row in rows.values() for figure in row if figure != OTHERS))
    figures.append(OTHERS)
    lines = [[name, "n", *map(heading, figures)]]
    for contender, row in rows.items():
        rounds = str(max(map(len, row.values())))
        lines.append([contender, rounds, *(_cell(row.get(figure), figure) for figure in figures)])
    return aligned(lines)


def heading(figure: str) -> str:
    """Return the heading of a figure: `p50 ms @16` for `p50_16`."""
    first, _, rest = figure.partition("_")
    unit = "ms" if first in MILLISECONDS else UNITS.get(first, "")
    if figure == OTHERS:
        return "others' cores"
    if rest.isdigit():
        return " ".join(filter(None, (first, unit, f"@{rest}")))
    return " ".join(filter(None, (figure.replace("_", " "), unit)))


def _cell(values: list[float] | None, figure: str) -> str:
    if not values:
        return ""
    number = format_number(summary(values)["median"])
    if figure == OTHERS:
        return f"{max(values):.2f}"
    return f"{number} ±{spread(values):.0%}" if len(values) > 1 else number


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    lines = [["goal", "who", "median", "to be", "verdict"]]
    for verdict in verdicts:
        value = "" if verdict.value is None else format_number(verdict.value)
        lines.append([verdict.work, verdict.contender, value, verdict.bound, verdict.word])
    return aligned(lines)


def _failures(results: Results) -> str:
    """Return each reason once, with the number of rounds in which it occurred."""
    found: dict[tuple[str, str, str], int] = {}
    for failure in results.failures:
        key = (failure.contender, failure.measure or "all", failure.reason.splitlines()[0][:REASON_CHARS])
        found[key] = found.get(key, 0) + 1
    lines = [f"not taken: {who}, {what} ({rounds}×): {reason}" for (who, what, reason), rounds in found.items()]
    return "\n".join(lines)
