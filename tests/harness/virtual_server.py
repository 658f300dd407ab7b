"""The scheduler's queue and batcher against a verifier that costs virtual time, without sockets."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dspark import clock
from dspark.errors import Overloaded, QueueFull
from dspark.generation import RequestSpec
from dspark.request_class import RequestClass
from dspark.sampling import FinishReason, SamplingParams
from dspark.scheduler.batcher import Batch, Batcher
from dspark.scheduler.cost_table import CostTable
from dspark.scheduler.fairness.prompt_budget import PromptBudget
from dspark.scheduler.fairness.settings import FairnessSettings
from dspark.scheduler.live_requests import LiveRequests, Numbers
from dspark.scheduler.request import Request
from dspark.scheduler.stats import Totals

# A processor of two cores, with int8 weights, and a device that is flat up to a tile of rows.
PROCESSOR = ((1, 9.3), (8, 13.4), (16, 24.2), (512, 421.0))
DEVICE = ((1, 10.0), (64, 10.5), (512, 80.0))
OVERHEAD_MS = 3.0


@dataclass(frozen=True)
class Ask:
    """One request, and when it comes."""

    at: float
    name: str
    num_prompt: int
    num_output: int
    tenant: str = ""
    request_class: RequestClass = RequestClass.INTERACTIVE
    priority: int = 0
    # what it asks for; None means what it is going to generate
    max_tokens: int | None = None

    @property
    def spec(self) -> RequestSpec:
        return RequestSpec(
            self.name,
            (1,) * self.num_prompt,
            SamplingParams(max_tokens=self.max_tokens or self.num_output),
            priority=self.priority,
            request_class=self.request_class,
            tenant=self.tenant,
        )


@dataclass
class Served:
    """What became of the requests, by name; times are seconds after they came."""

    ttft_s: dict[str, float] = field(default_factory=dict)
    ended_s: dict[str, float] = field(default_factory=dict)
    refused: dict[str, QueueFull | Overloaded] = field(default_factory=dict)
    # by tenant: prompt tokens of requests that came to their first token, and generated ones
    tokens: dict[str, int] = field(default_factory=dict)

    def ttft(self, prefix: str) -> list[float]:
        return [each for name, each in self.ttft_s.items() if name.startswith(prefix)]


class VirtualServer:
    """``run`` serves the asks, and what ``follow`` asks for whenever a request ends."""

    def __init__(
        self,
        costs: Sequence[tuple[int, float]] = PROCESSOR,
        settings: FairnessSettings | None = None,
        *,
        max_num_seqs: int = 16,
        num_blocks: int = 100_000,
        max_waiting: int = 10_000,
    ) -> None:
        settings = settings or FairnessSettings()
        self.now = 0.0
        self.totals = Totals()
        self.live = LiveRequests(max_waiting, Numbers(lambda: 1), self.totals, settings)
        self._table = CostTable(costs)
        budget = PromptBudget(self._table, settings.max_prompt_ms, 512)
        self.batcher = Batcher(max_num_seqs, 512, 16, num_blocks, budget, settings)
        self.served = Served()
        self._asks: dict[str, Ask] = {}
        self._coming: list[tuple[float, int, Ask]] = []
        self._numbers = itertools.count()

    def run(
        self,
        asks: Iterable[Ask],
        until_s: float = math.inf,
        follow: Callable[[Ask, float], Ask | None] = lambda ask, now: None,
    ) -> Served:
        with clock.replaced(lambda: self.now):
            for ask in asks:
                self._expect(ask)
            while (self._coming or len(self.live)) and self.now < until_s:
                self._let_come()
                self._step(follow)
        return self.served

    def _expect(self, ask: Ask) -> None:
        heapq.heappush(self._coming, (ask.at, next(self._numbers), ask))

    def _let_come(self) -> None:
        """Those that came during the last step; if nothing is to be done, the next one."""
        if not len(self.live):
            self.now = max(self.now, self._coming[0][0])
        step_end = self.now
        while self._coming and self._coming[0][0] <= step_end:
            at, _, ask = heapq.heappop(self._coming)
            self.now, self._asks[ask.name] = at, ask
            try:
                self.live.submit(ask.spec)
            except (QueueFull, Overloaded) as error:
                self.served.refused[ask.name] = error
        self.now = step_end

    def _step(self, follow: Callable[[Ask, float], Ask | None]) -> None:
        self.live.take_releases()
        used = sum(-(-r.num_computed_tokens // 16) for r in self.live.running)
        batch = self.batcher.schedule(self.live, self.batcher.num_blocks - used)
        seconds = (self._table.ms(batch.num_rows) + OVERHEAD_MS) / 1e3
        self.now += seconds
        num_decodes = len(batch.decodes)
        if self.live.waiting:
            self.live.rates.add(
                batch.num_rows - num_decodes, num_decodes, batch.num_committing, seconds
            )
        for request in self._apply(batch):
            ask = self._asks[request.request_id]
            self.served.ended_s[ask.name] = self.now - ask.at
            if (next_ask := follow(ask, self.now)) is not None:
                self._expect(next_ask)

    def _apply(self, batch: Batch) -> Iterable[Request]:
        for rows in batch.scheduled:
            request, commits = rows.request, rows.commits
            num_rows = min(rows.max_pending_rows, request.num_pending_tokens)
            request.num_computed_tokens += num_rows
            if not commits:
                continue
            is_first = request.request_id not in self.served.ttft_s
            num_tokens = 1 + is_first * request.num_prompt_tokens
            tenant = request.spec.tenant
            self.served.tokens[tenant] = self.served.tokens.get(tenant, 0) + num_tokens
            request.commit((1,))
            self.live.waiting.correct(request)
            self.served.ttft_s.setdefault(request.request_id, self.now - request.arrived_at)
            if request.num_generated_tokens >= self._asks[request.request_id].num_output:
                self.live.complete(request, FinishReason.STOP)
                yield request


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of all does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
