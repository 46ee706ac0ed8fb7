"""Prometheus metrics of the site's calls, read from the database at each scrape with a few queries.

Counters and histograms are sums of the tallies, which never get smaller. So they continue when a
process restarts, and when requests are purged. No label has values that clients choose.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from django.db.models import Count, Sum

from mcp_app.lifecycle.liveness import processes
from mcp_app.lifecycle.liveness.queues import queue_ages
from mcp_app.lifecycle.statistics import durations, live_numbers
from mcp_app.models import Request, Tally
from mcp_app.states import OPEN, Measure, Stage

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError("metrics need prometheus-client: pip install 'django-mcp-app[metrics]'") from error

_EXPORTED: Final = range(5, len(durations.UPPER_BOUNDS), 2)
"""The buckets of a histogram: every second one of the tallies', from 10 ms on."""


@dataclass(slots=True)
class _DurationCounts:
    """The number of durations in each bucket, and the sum of all durations."""

    counts: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, bucket: int, count: int, seconds: float) -> None:
        self.counts[bucket] += count
        self.seconds += seconds

    @property
    def cumulative(self) -> list[tuple[str, float]]:
        """Pairs of an upper bound and the number of durations that do not exceed it."""
        pairs = [
            (str(durations.UPPER_BOUNDS[each]), float(sum(n for bucket, n in self.counts.items() if bucket <= each)))
            for each in _EXPORTED
        ]
        return [*pairs, ("+Inf", float(self.counts.total()))]


class MCPCollector(Collector):
    """Exports this app's metrics from a registry that the site made.

    Example::

        registry = CollectorRegistry()
        registry.register(MCPCollector())

    A scrape raises `django.db.Error` if the database cannot be read.
    """

    def collect(self) -> Iterator[Metric]:
        """Yield gauges of open calls, queues and processes, and counters and histograms of ended calls."""
        yield from _open_metrics()
        yield from _ended_metrics()

    def describe(self) -> Iterable[Metric]:
        """Return no metrics: otherwise a registry would query the database at registration."""
        return []


def _open_metrics() -> Iterator[Metric]:
    requests = GaugeMetricFamily("mcp_requests", "Calls that have not ended.", labels=["tool", "status"])
    open_ones = Request.objects.filter(status__in=OPEN).order_by().values_list("tool", "status")
    for tool, status, count in open_ones.annotate(Count("pk")):
        requests.add_metric([tool, status], count)
    yield requests

    waiting = GaugeMetricFamily("mcp_queue_waiting", "Calls that wait for a worker.", labels=["queue"])
    oldest = GaugeMetricFamily(
        "mcp_queue_oldest_seconds", "How long the oldest call that waits for a worker has waited.", labels=["queue"]
    )
    for age in queue_ages():
        waiting.add_metric([age.queue], age.waiting)
        oldest.add_metric([age.queue], age.oldest_seconds)
    yield waiting
    yield oldest

    alive = GaugeMetricFamily("mcp_processes", "Processes with a recent heartbeat.", labels=["role"])
    for role, count in processes.count_alive().items():
        alive.add_metric([role.value], count)
    yield alive

    what = "Age of the oldest ended call that the counters below do not include yet."
    yield GaugeMetricFamily("mcp_counting_behind_seconds", what, value=live_numbers.lag())


def _ended_metrics() -> Iterator[Metric]:
    calls: Counter[tuple[str, ...]] = Counter()
    cancellations: Counter[tuple[str, ...]] = Counter()
    runs, waits = defaultdict[str, _DurationCounts](_DurationCounts), defaultdict[str, _DurationCounts](_DurationCounts)
    stops = defaultdict[tuple[str, ...], _DurationCounts](_DurationCounts)
    dimensions = ("tool", "measure", "status", "cause", "stage", "bucket")
    for row in Tally.objects.order_by().values(*dimensions).annotate(number=Sum("count"), length=Sum("seconds")):
        tool, bucket, number, length = row["tool"], row["bucket"], row["number"], row["length"]
        if row["measure"] == Measure.WAIT:
            waits[tool].add(bucket, number, length)
        elif row["measure"] == Measure.STOP:
            stage = Stage(row["stage"]).name.lower()
            cancellations[tool, row["cause"], stage] += number
            stops[row["cause"], stage].add(bucket, number, length)
        else:
            calls[tool, row["status"]] += number
            if bucket != durations.NO_DURATION:
                runs[tool].add(bucket, number, length)
    yield _counter("mcp_calls", "Calls that ended, by outcome.", ["tool", "status"], calls)
    labels = ["tool", "cause", "stage"]
    yield _counter("mcp_cancellations", "Calls that were stopped, by cause and stage.", labels, cancellations)
    yield _histogram("mcp_run_seconds", "How long tools ran.", ["tool"], {(tool,): runs[tool] for tool in runs})
    yield _histogram(
        "mcp_wait_seconds", "How long calls waited for a worker.", ["tool"], {(tool,): waits[tool] for tool in waits}
    )
    yield _histogram(
        "mcp_stop_seconds", "Time from the cancellation to the end of the call.", ["cause", "stage"], stops
    )


def _counter(name: str, documentation: str, labels: list[str], counts: Mapping[tuple[str, ...], int]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family


def _histogram(
    name: str, documentation: str, labels: list[str], found: Mapping[tuple[str, ...], _DurationCounts]
) -> Metric:
    family = HistogramMetricFamily(name, documentation, labels=labels)
    for values, measured in sorted(found.items()):
        family.add_metric(values, measured.cumulative, measured.seconds)
    return family
