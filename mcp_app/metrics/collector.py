"""The site's calls as Prometheus metrics, read from the rows at each scrape by a bounded number of queries.

Counters and histograms are sums of the tallies, which never lose what they counted: they go on where a process was
restarted, and when requests are purged. Refuses labels whose values clients choose.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from django.db.models import Count, Sum

from mcp_app.lifecycle import buckets, live_numbers, processes
from mcp_app.lifecycle.queue_ages import queue_ages
from mcp_app.models import Request, Tally
from mcp_app.states import OPEN, Measure, Stage

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError("metrics take prometheus-client: pip install 'django-mcp-app[metrics]'") from error

_EXPORTED: Final = range(5, len(buckets.UPPER_BOUNDS), 2)
"""The buckets that a histogram has: from 10 ms on, each 2.5 times as long as the one before."""


@dataclass(slots=True)
class _Lengths:
    """What was measured, by bucket, and all of it together."""

    counts: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, bucket: int, count: int, seconds: float) -> None:
        self.counts[bucket] += count
        self.seconds += seconds

    @property
    def cumulative(self) -> list[tuple[str, float]]:
        """Pairs of upper bound and how many did not exceed it, as an exposition has them."""
        told = [
            (str(buckets.UPPER_BOUNDS[each]), float(sum(n for bucket, n in self.counts.items() if bucket <= each)))
            for each in _EXPORTED
        ]
        return [*told, ("+Inf", float(self.counts.total()))]


class MCPCollector(Collector):
    """For `prometheus_client.CollectorRegistry.register`. A scrape raises django.db.Error where the rows are away."""

    def collect(self) -> Iterator[Metric]:
        """What is live, then what ended."""
        yield from _live()
        yield from _ended()

    def describe(self) -> Iterable[Metric]:
        """None: a registry would otherwise ask the database when the collector is registered."""
        return []


def _live() -> Iterator[Metric]:
    requests = GaugeMetricFamily("mcp_requests", "Calls that have not ended.", labels=["tool", "status"])
    open_ones = Request.objects.filter(status__in=OPEN).order_by().values_list("tool", "status")
    for tool, status, count in open_ones.annotate(Count("pk")):
        requests.add_metric([tool, status], count)
    yield requests

    waiting = GaugeMetricFamily("mcp_queue_waiting", "Calls that wait for a worker.", labels=["queue"])
    oldest = GaugeMetricFamily("mcp_queue_oldest_seconds", "How long the oldest of them has waited.", labels=["queue"])
    for age in queue_ages():
        waiting.add_metric([age.queue], age.waiting)
        oldest.add_metric([age.queue], age.oldest_seconds)
    yield waiting
    yield oldest

    alive = GaugeMetricFamily("mcp_processes", "Processes that were heard of lately.", labels=["role"])
    for role, count in processes.count_alive().items():
        alive.add_metric([role.value], count)
    yield alive

    what = "How long ago the oldest call ended that the counters below do not have yet."
    yield GaugeMetricFamily("mcp_counting_behind_seconds", what, value=live_numbers.lag())


def _ended() -> Iterator[Metric]:
    calls: Counter[tuple[str, ...]] = Counter()
    cancellations: Counter[tuple[str, ...]] = Counter()
    runs, waits = defaultdict[str, _Lengths](_Lengths), defaultdict[str, _Lengths](_Lengths)
    stops = defaultdict[tuple[str, ...], _Lengths](_Lengths)
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
            if bucket != buckets.NONE:
                runs[tool].add(bucket, number, length)
    yield _counter("mcp_calls", "Calls that ended, by how.", ["tool", "status"], calls)
    labels = ["tool", "cause", "stage"]
    yield _counter("mcp_cancellations", "Calls that were stopped: why, and how far it went.", labels, cancellations)
    yield _histogram("mcp_run_seconds", "How long tools ran.", ["tool"], {(tool,): runs[tool] for tool in runs})
    yield _histogram("mcp_wait_seconds", "How long calls waited.", ["tool"], {(tool,): waits[tool] for tool in waits})
    yield _histogram("mcp_stop_seconds", "From the request to cancel to the end.", ["cause", "stage"], stops)


def _counter(name: str, told: str, labels: list[str], counts: Mapping[tuple[str, ...], int]) -> Metric:
    family = CounterMetricFamily(name, told, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family


def _histogram(name: str, told: str, labels: list[str], lengths: Mapping[tuple[str, ...], _Lengths]) -> Metric:
    family = HistogramMetricFamily(name, told, labels=labels)
    for values, measured in sorted(lengths.items()):
        family.add_metric(values, measured.cumulative, measured.seconds)
    return family
