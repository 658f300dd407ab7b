"""Status counters for Prometheus; the gateway has the request metrics."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dspark.scheduler.scheduler import Scheduler, SchedulerStatus

PREFIX = "dspark_scheduler_"


class StatusCollector(Collector):
    """Reads the scheduler's status when Prometheus asks."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def collect(self) -> Iterable[Metric]:
        status = self._scheduler.status
        yield from _gauges(status)
        yield from _counters(status)
        yield _per_source(status, "drafted", "Verified nodes by source.")
        yield _per_source(status, "accepted", "Accepted nodes by source.")
        finished = CounterMetricFamily(
            PREFIX + "requests", "Ended requests by reason.", labels=["finished_reason"]
        )
        for reason, count in status.totals.finished.items():
            finished.add_metric([reason.value], count)
        yield finished


def serve_metrics(scheduler: Scheduler, port: int) -> None:
    """Answer GET /metrics on the port from a thread of its own."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(scheduler))
    start_http_server(port, registry=registry)


def _gauges(status: SchedulerStatus) -> Iterable[Metric]:
    for name, text, value in (
        ("requests_running", "Requests on a verifier.", status.num_running),
        ("requests_waiting", "Requests not on a verifier.", status.num_waiting),
        ("kv_blocks_free", "KV blocks that can be allocated.", status.num_free_blocks),
        ("kv_blocks", "KV blocks of the pool.", status.num_blocks),
    ):
        yield GaugeMetricFamily(PREFIX + name, text, value=value)


def _counters(status: SchedulerStatus) -> Iterable[Metric]:
    totals = status.totals
    for name, text, value in (
        ("steps", "Finished steps.", totals.num_steps),
        ("preemptions", "Requests that gave up their KV blocks.", totals.num_preemptions),
        ("generation_tokens", "Committed tokens.", totals.generation_tokens),
        ("prompt_tokens", "Prompt tokens of finished prefills.", totals.prompt_tokens),
        ("cached_tokens", "Prompt tokens found in the prefix cache.", totals.cached_tokens),
        ("verify_rounds", "Verify passes that committed.", totals.speculation.rounds),
        ("drafted_tokens", "Verified nodes.", totals.speculation.drafted),
        ("accepted_tokens", "Accepted nodes.", totals.speculation.accepted),
    ):
        yield CounterMetricFamily(PREFIX + name, text, value=value)


def _per_source(status: SchedulerStatus, kind: str, text: str) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}source_{kind}_tokens", text, labels=["source"])
    for name, counts in status.totals.speculation.sources.items():
        family.add_metric([name], getattr(counts, kind))
    return family
