"""Calls one source such that nothing it does can hurt: failures are counted, logged and muted."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

from dspark.candidates.running_rate import RunningRate
from dspark.candidates.sources.interface import CandidateSource, Trees
from dspark.circuit_breaker import CircuitBreaker

log = logging.getLogger(__name__)

# A broken source fails every step: say so once in this many seconds.
LOG_INTERVAL_S = 10.0
# Sources that look something up take far less, those that compute a network far more.
DEAR_MS = 0.5


class SourceRunner:
    """A source, how often it failed and by what reason, and whether it is muted.

    Reasons: ``raised`` (in any call), ``late`` (no trees by the deadline), ``garbage`` (not one
    tree a request). After ``max_failures`` in a row the source is muted: not asked for trees, and
    tried again later.
    """

    def __init__(self, source: CandidateSource, breaker: CircuitBreaker, max_cost_s: float) -> None:
        self.source = source
        self._max_cost_ns = int(max_cost_s * 1e9)
        self.failures: Counter[str] = Counter()
        # rounds with sound trees, the nodes in them, and the time of all that gave trees
        self.num_rounds = 0
        self.num_nodes = 0
        self.total_ns = 0
        self.rate = RunningRate()
        self._breaker = breaker
        self._next_log = 0.0

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def ms_per_request(self) -> float:
        """What asking it costs; 0 before that is known."""
        rate = self.rate.of(self.name)
        return 0.0 if rate is None else rate.ms_per_request

    @property
    def is_dear(self) -> bool:
        """Whether asking it takes so long that others are to be heard first."""
        return self.ms_per_request > DEAR_MS

    @property
    def is_muted(self) -> bool:
        return self._breaker.is_open

    def may_propose(self) -> bool:
        return self._breaker.allows()

    def delivered(self, trees: Trees, cost_ns: int) -> None:
        """It gave sound trees. If they took too long that is a failure all the same."""
        self.num_rounds += 1
        num_nodes = sum(len(tree.token_ids) for tree in trees)
        self.num_nodes += num_nodes
        self.total_ns += cost_ns
        self.rate.add(len(trees), num_nodes, cost_ns)
        if cost_ns > self._max_cost_ns:
            self.failed("late")
        else:
            self._breaker.succeeded()

    def tell(self, method: Callable[..., None], *arguments: object) -> None:
        """Call one of the source's methods that return nothing."""
        try:
            method(*arguments)
        except Exception as error:
            self.failed("raised", error)

    def failed(self, reason: str, error: BaseException | None = None) -> None:
        """Count a failure, mute the source if there were too many in a row, log now and then."""
        self.failures[reason] += 1
        self._breaker.failed()
        now = time.monotonic()
        if now < self._next_log:
            return
        self._next_log = now + LOG_INTERVAL_S
        log.warning(
            "source %s: %s; failures so far: %s%s",
            self.name,
            reason,
            dict(self.failures),
            "; muted for now" if self.is_muted else "",
            exc_info=error,
        )
