"""The goals of `docs/project/benchmarks.md`, each judged by medians of the same run. Does no I/O."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import ge, le

from bench.figures import format_number
from bench.peers.results import Of, Results
from bench.peers.target import Amounts

STREAM_KB = 25.0
SIGNS: dict[Callable[[float, float], bool], str] = {ge: "≥", le: "≤"}


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for the figure `what`: `factor` times the reference, or `factor` itself if there is no reference."""

    work: str
    what: Of
    compare: Callable[[float, float], bool]
    factor: float
    unit: str
    reference: Of | None = None

    def judge(self, results: Results) -> "Verdict":
        value = results.median(self.what)
        base = 1.0 if self.reference is None else results.median(self.reference)
        bound = None if base is None else self.factor * base
        met = None if value is None or bound is None else self.compare(value, bound)
        return Verdict(self.work, self.what.contender, value, self._bound(bound), met)

    def _bound(self, bound: float | None) -> str:
        sign, unit = SIGNS[self.compare], f" {self.unit}".rstrip()
        if self.reference is None:
            return f"{sign} {self.factor:g}{unit}"
        number = "" if bound is None else f" = {format_number(bound)}{unit}"
        return f"{sign} {self.factor:g} × {self.reference.contender}{number}"


@dataclass(frozen=True, slots=True)
class Verdict:
    work: str
    contender: str
    value: float | None
    bound: str
    met: bool | None
    """`None` if the figure or its reference was not measured."""

    @property
    def word(self) -> str:
        return {True: "met", False: "MISSED", None: "not measured"}[self.met]


def goals(amounts: Amounts) -> list[Goal]:
    return [*_lists(), *_calls(), *_progress(), *_streams(), *_crowds(amounts), *_idle()]


def judge(results: Results, amounts: Amounts) -> list[Verdict]:
    """Return the verdicts on all goals whose figures this run has measured."""
    verdicts = (goal.judge(results) for goal in goals(amounts))
    return [verdict for verdict in verdicts if verdict.value is not None]


def _lists() -> Iterator[Goal]:
    for measure, method in (("list", "tools/list"), ("discover", "server/discover")):
        reference = Of("mcp", measure, "rate")
        for stack in ("embedded", "redis"):
            for server, factor in (("uvicorn", 3), ("daphne", 1)):
                yield Goal(method, Of(f"{stack}-{server}", measure, "rate"), ge, factor, "/s", reference)


def _calls() -> Iterator[Goal]:
    for connections in (16, 64):
        rate = f"rate_{connections}"
        what = Of("redis-uvicorn", "echo", rate)
        work = f"a durable call, {connections} connections"
        yield Goal(work, what, ge, 1, "/s", Of("fastmcp", "echo", rate))
        yield Goal(work, what, ge, 3, "/s", Of("fastmcp-tasks", "tasks", rate))
    for stack in ("embedded", "redis"):
        work, rate = "a durable call, of an empty Celery task behind the same server", "rate_16"
        yield Goal(work, Of(f"{stack}-uvicorn", "echo", rate), ge, 0.85, "/s", Of(f"celery-{stack}", "echo", rate))
    alone = Of("redis-uvicorn", "echo", "p50_1")
    # The bare Celery round trip is stored under the name of the site whose broker it uses.
    yield Goal(
        "a durable call alone, of a bare Celery round trip", alone, le, 1.75, "ms", Of("redis-uvicorn", "celery", "p50")
    )
    yield Goal("a durable call alone, embedded", Of("embedded-daphne", "echo", "p50_1"), le, 8, "ms")
    reference = Of("fastmcp", "echo", "rate_16")
    for name, tools in (("daphne", ""), ("uvicorn", ""), ("threads", ", tools in threads")):
        work = f"a durable call, embedded{tools}, 16 connections"
        yield Goal(work, Of(f"embedded-{name}", "echo", "rate_16"), ge, 1, "/s", reference)


def _progress() -> Iterator[Goal]:
    for stack, server, bound in (("redis", "uvicorn", 6), ("embedded", "daphne", 10)):
        yield Goal("progress, p50", Of(f"{stack}-{server}", "progress", "p50"), le, bound, "ms")
        yield Goal("progress, many calls, p50", Of(f"{stack}-crowd", "reports", "p50"), le, bound, "ms")
        yield Goal("progress, many calls, lost", Of(f"{stack}-crowd", "reports", "lost"), le, 0, "")


def _streams() -> Iterator[Goal]:
    reference = Of("mcp", "listen", "all")
    for contender in ("redis-uvicorn", "redis-daphne", "embedded-uvicorn", "embedded-daphne"):
        for measure in ("listen", "listen-many"):
            yield Goal(f"{measure}, a stream's memory", Of(contender, measure, "kb_each"), le, STREAM_KB, "kB")
        yield Goal("listen, one change to all", Of(contender, "listen", "all"), le, 1, "ms", reference)
        yield Goal("listen-many, one change to all", Of(contender, "listen-many", "all"), le, 2000, "ms")
    for measure in ("listen", "listen-many"):
        yield Goal(f"{measure}, on two processes, reached", Of("redis-two", measure, "reached"), ge, 1, "")


def _crowds(amounts: Amounts) -> Iterator[Goal]:
    for stack in ("redis", "embedded"):
        yield Goal("tools that wait at once", Of(f"{stack}-crowd", "waiting", "at_once"), ge, amounts.waiting, "")
        yield Goal("each cancelled, the slowest", Of(f"{stack}-crowd", "waiting", "cancel_max"), le, 50, "ms")


def _idle() -> Iterator[Goal]:
    for stack in ("redis", "embedded"):
        work = "nobody calls, statements in 10 s"
        yield Goal(f"{work}, of a server", Of(f"{stack}-idle", "idle", "server"), le, 0, "")
        yield Goal(f"{work}, of supervision", Of(f"{stack}-idle", "idle", "supervision"), le, 1, "")
