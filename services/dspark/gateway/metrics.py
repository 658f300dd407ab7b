"""Metrics of the gateway: vLLM's names where routers expect them, ``dspark_`` for our own."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import generate_latest
from prometheus_client.core import Metric

from dspark.gateway import engine_metrics
from dspark.gateway.engine_metrics import ENGINE, LABELS
from dspark.gateway.lifecycle import Lifecycle
from dspark.gateway.request_books import RequestBooks
from dspark.gateway.token_source import SchedulerStatus
from dspark.metrics import process
from dspark.metrics.families import Catalogue
from dspark.sampling import FinishReason

SERVICE = "gateway"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FAMILIES = Catalogue([process.FAMILIES, engine_metrics.FAMILIES])
_VLLM = FAMILIES.prefixed("vllm:", LABELS)
_OWN = FAMILIES.prefixed("dspark_gateway_")

PROMPT_TOKENS = _VLLM.counter("prompt_tokens", "Prompt tokens of requests.")
GENERATION_TOKENS = _VLLM.counter("generation_tokens", "Generated tokens.")
REQUEST_SUCCESS = _VLLM.counter(
    "request_success", "Ended requests by the reason they ended.", ("finished_reason",)
)
FIRST_TOKEN = _VLLM.histogram("time_to_first_token_seconds", "Time to the first tokens.")
TOKEN_GAP = _VLLM.histogram("inter_token_latency_seconds", "Gaps between runs of tokens.")
PER_TOKEN = _VLLM.histogram(
    "request_time_per_output_token_seconds", "A request's mean time of each token after the first."
)
WHOLE = _VLLM.histogram("e2e_request_latency_seconds", "Time of whole requests.")
QUEUE = _VLLM.histogram("request_queue_time_seconds", "Time until a request got onto a verifier.")
PREFILL = _VLLM.histogram("request_prefill_time_seconds", "Time from then to its first token.")
DECODE = _VLLM.histogram("request_decode_time_seconds", "Time from the first token to the end.")
INFERENCE = _VLLM.histogram(
    "request_inference_time_seconds", "Time on a verifier: prefill and decode."
)
PROMPT_LENGTH = _VLLM.histogram("request_prompt_tokens", "Prompt tokens of a request.")
GENERATION_LENGTH = _VLLM.histogram("request_generation_tokens", "Generated tokens of a request.")
MAX_TOKENS = _VLLM.histogram("request_params_max_tokens", "max_tokens of a request.")
HTTP_RESPONSES = _OWN.counter(
    "http_responses",
    "HTTP responses by route; status 499 is a client that went away.",
    ("path", "status"),
)
RUNNING = _OWN.gauge("requests_running", "Requests that are being answered.")
FAILURES = _OWN.counter(
    "request_failures", "Accepted requests that failed, by reason.", ("reason",)
)
RETRIES = _OWN.counter("retries", "Requests that were sent again before their first token.")
RESUMPTIONS = _OWN.counter(
    "resumptions", "Streams that lost their scheduler and were taken up again."
)
KEY_REFUSALS = _OWN.counter(
    "key_refusals", "Requests that a limit of their API key refused.", ("limit",)
)
SCHEDULER_UP = _OWN.gauge("scheduler_up", "1 if a scheduler answered for this scrape.")


class GatewayMetrics:
    """The books of one gateway process, and how they are shown."""

    def __init__(self, model_name: str, lifecycle: Lifecycle) -> None:
        self.books = RequestBooks()
        self.registry = process.service_registry(SERVICE, self._collect)
        self._model_name = model_name
        self._lifecycle = lifecycle
        self._status: SchedulerStatus | None = None

    def render(self, status: SchedulerStatus | None) -> bytes:
        """The exposition text; without a status the scheduler's values are left out."""
        self._status = status
        return generate_latest(self.registry)

    def _collect(self) -> Iterable[Metric]:
        status = self._status
        yield SCHEDULER_UP.one(status is not None)
        if status is not None:
            yield from engine_metrics.collect(status, self._model_name)
        yield RUNNING.one(self._lifecycle.num_running)
        yield from self._requests()
        yield from self._own()

    def _requests(self) -> Iterable[Metric]:
        books, labels = self.books, (self._model_name, ENGINE)
        yield PROMPT_TOKENS.one(books.prompt_tokens, *labels)
        yield GENERATION_TOKENS.one(books.generation_tokens, *labels)
        yield REQUEST_SUCCESS.many(((*labels, r.value), books.ends[r]) for r in FinishReason)
        for family, distribution in (
            (FIRST_TOKEN, books.first_token_s),
            (TOKEN_GAP, books.token_gap_s),
            (PER_TOKEN, books.per_token_s),
            (WHOLE, books.whole_s),
            (QUEUE, books.queue_s),
            (PREFILL, books.prefill_s),
            (DECODE, books.decode_s),
            (INFERENCE, books.inference_s),
            (PROMPT_LENGTH, books.prompt_lengths),
            (GENERATION_LENGTH, books.generation_lengths),
            (MAX_TOKENS, books.max_tokens),
        ):
            yield family.distributions([(labels, distribution)])

    def _own(self) -> Iterable[Metric]:
        books = self.books
        yield HTTP_RESPONSES.many(books.http_responses.items())
        yield FAILURES.many(((reason,), count) for reason, count in books.failures.items())
        yield KEY_REFUSALS.many(((limit,), count) for limit, count in books.key_refusals.items())
        yield RETRIES.one(books.num_retries)
        yield RESUMPTIONS.one(books.num_resumptions)
