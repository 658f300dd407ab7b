"""How requests of each class were served: their waits, refusals, and whether targets were met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from dspark.errors import DSparkError, Overloaded, QueueFull
from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution
from dspark.request_class import RequestClass
from dspark.scheduler.fairness.settings import Targets
from dspark.scheduler.request import Request

REFUSALS = (QueueFull, Overloaded)


class ClassBooks:
    """Counts since the scheduler's start."""

    def __init__(self) -> None:
        self.queue_s = {each: Distribution(buckets.TTFT_SECONDS) for each in RequestClass}
        # by class and whether every target was met
        self.ends: Counter[tuple[RequestClass, bool]] = Counter()
        # by class and reason of the error
        self.refusals: Counter[tuple[RequestClass, str]] = Counter()

    def admitted(self, request: Request, now: float) -> None:
        """A request leaves the queue for the first time."""
        self.queue_s[request.spec.request_class].observe(now - request.arrived_at)

    def ended(self, request: Request, targets: Targets, now: float, *, has_failed: bool) -> None:
        """A request ended that its client did not cancel."""
        is_met = not has_failed and meets(request, targets, now)
        self.ends[request.spec.request_class, is_met] += 1

    @contextmanager
    def refusals_of(self, request_class: RequestClass) -> Iterator[None]:
        """Count what is refused inside."""
        try:
            yield
        except REFUSALS as error:
            self.refused(request_class, error)
            raise

    def refused(self, request_class: RequestClass, error: DSparkError) -> None:
        self.refusals[request_class, error.reason] += 1


def meets(request: Request, targets: Targets, now: float) -> bool:
    """Whether a request that ends now came to its first and its later tokens in time."""
    if request.decoding_since is None:
        return not targets.ttft_ms
    ttft_ms = (request.decoding_since - request.arrived_at) * 1e3
    num_later = max(request.num_generated_tokens - 1, 1)
    tpot_ms = (now - request.decoding_since) * 1e3 / num_later
    return _within(ttft_ms, targets.ttft_ms) and _within(tpot_ms, targets.tpot_ms)


def _within(value_ms: float, target_ms: float) -> bool:
    return not target_ms or value_ms <= target_ms
