"""Prometheus metrics: vLLM's names where routers expect them, ``dspark_`` for our own."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dspark.gateway.token_source import SchedulerStatus
from dspark.sampling import FinishReason

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LABELS = ("model_name", "engine")
_ENGINE = "0"
_TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_ITL_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


class GatewayMetrics:
    """Own counters of one gateway process, and the scheduler's status as last seen."""

    def __init__(self, model_name: str) -> None:
        self.registry = CollectorRegistry()
        self._status = _SchedulerStatusCollector(model_name)
        self.registry.register(self._status)
        labels = {"model_name": model_name, "engine": _ENGINE}

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, _LABELS, registry=self.registry).labels(**labels)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, _LABELS, buckets=buckets, registry=self.registry).labels(
                **labels
            )

        self.prompt_tokens = counter("vllm:prompt_tokens", "Prompt tokens of requests.")
        self.generation_tokens = counter("vllm:generation_tokens", "Generated tokens.")
        success = Counter(
            "vllm:request_success",
            "Ended requests by the reason they ended.",
            (*_LABELS, "finished_reason"),
            registry=self.registry,
        )
        self.request_success = {
            reason: success.labels(**labels, finished_reason=reason.value)
            for reason in FinishReason
        }
        self.time_to_first_token = histogram(
            "vllm:time_to_first_token_seconds", "Time to the first tokens.", _TTFT_BUCKETS
        )
        self.inter_token_latency = histogram(
            "vllm:inter_token_latency_seconds", "Gaps between runs of tokens.", _ITL_BUCKETS
        )
        self.e2e_request_latency = histogram(
            "vllm:e2e_request_latency_seconds", "Time of whole requests.", _REQUEST_BUCKETS
        )
        self.http_responses = Counter(
            "dspark_gateway_http_responses",
            "HTTP responses; status 499 is a client that went away.",
            ("path", "status"),
            registry=self.registry,
        )

    def start_request(self, prompt_tokens: int) -> RequestTimer:
        self.prompt_tokens.inc(prompt_tokens)
        return RequestTimer(self)

    def render(self, status: SchedulerStatus | None) -> bytes:
        """The exposition text; without a status the scheduler's values are left out."""
        self._status.status = status
        return generate_latest(self.registry)


class RequestTimer:
    """Observes one request from its admission to its end."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self._metrics = metrics
        self._start = time.perf_counter()
        self._last: float | None = None

    def observe_tokens(self, num_tokens: int) -> None:
        now = time.perf_counter()
        if self._last is None:
            self._metrics.time_to_first_token.observe(now - self._start)
        else:
            self._metrics.inter_token_latency.observe(now - self._last)
        self._last = now
        self._metrics.generation_tokens.inc(num_tokens)

    def finish(self, reason: FinishReason) -> None:
        self._metrics.request_success[reason].inc()
        self._metrics.e2e_request_latency.observe(time.perf_counter() - self._start)


class _SchedulerStatusCollector(Collector):
    def __init__(self, model_name: str) -> None:
        self.status: SchedulerStatus | None = None
        self._label_values = (model_name, _ENGINE)

    def collect(self) -> Iterator[Metric]:
        status = self.status
        if status is None:
            return
        used = status.num_blocks - status.num_free_blocks
        usage = used / status.num_blocks if status.num_blocks else 0.0
        yield self._gauge("num_requests_running", "Requests on a verifier.", status.num_running)
        yield self._gauge("num_requests_waiting", "Requests in the queue.", status.num_waiting)
        yield self._gauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", usage)
        speculation = status.speculation
        for name, text, value in (
            ("num_preemptions", "Preemptions.", status.num_preemptions),
            ("prefix_cache_queries", "Prompt tokens looked up.", status.prompt_tokens),
            ("prefix_cache_hits", "Prompt tokens found.", status.cached_tokens),
            ("spec_decode_num_drafts", "Verify passes.", speculation.rounds),
            ("spec_decode_num_draft_tokens", "Draft tokens verified.", speculation.drafted),
            ("spec_decode_num_accepted_tokens", "Draft tokens kept.", speculation.accepted),
        ):
            family = CounterMetricFamily(f"vllm:{name}", text, labels=_LABELS)
            family.add_metric(self._label_values, value)
            yield family
        yield from self._sources(status)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=_LABELS)
        family.add_metric(self._label_values, value)
        return family

    def _sources(self, status: SchedulerStatus) -> Iterator[Metric]:
        labels = ("model_name", "source")
        drafted = CounterMetricFamily(
            "dspark_source_draft_tokens", "Draft tokens verified, by source.", labels=labels
        )
        accepted = CounterMetricFamily(
            "dspark_source_accepted_tokens", "Draft tokens kept, by source.", labels=labels
        )
        for name, counts in sorted(status.speculation.sources.items()):
            drafted.add_metric((self._label_values[0], name), counts.drafted)
            accepted.add_metric((self._label_values[0], name), counts.accepted)
        yield from (drafted, accepted)
