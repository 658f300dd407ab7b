"""Verifiers in virtual time, under the scheduler's own placement and moves."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from dspark.scheduler.pace import Speed
from dspark.scheduler.placement import Job, WorkerView, place
from dspark.scheduler.rebalance import Load, Movable, rebalance
from dspark.scheduler.row_budgets import row_budgets

TICK_MS = 1000.0
MAX_NUM_SEQS = 64


@dataclass(eq=False)
class VirtualRequest:
    """A request with ``num_pending`` tokens to compute before it decodes the rest."""

    number: int
    num_tokens: int
    num_left: int
    num_pending: int
    num_moves: int = 0
    last_at: float | None = None

    def job(self, typical: float) -> Job:
        return Job(self.num_pending, min(float(self.num_left), typical))


@dataclass(eq=False)
class VirtualVerifier:
    """Steps whatever it has; a step takes what its speed says."""

    name: str
    speed: Speed
    max_rows: int = 0
    requests: list[VirtualRequest] = field(default_factory=list)
    next_at: float = 0.0

    def view(self, typical: float) -> WorkerView:
        view = WorkerView(self.name, self.speed, MAX_NUM_SEQS)
        for request in self.requests:
            view = view.plus(request.job(typical))
        return view

    def load(self, typical: float) -> Load:
        movable = (
            Movable(str(r.number), r.job(typical), r.num_tokens, r.num_pending <= 1, r.num_moves)
            for r in self.requests
        )
        return Load(self.view(typical), "one", tuple(movable))


@dataclass
class VirtualFleet:
    """A closed loop: ``concurrency`` requests run until ``num_requests`` have ended."""

    verifiers: list[VirtualVerifier]
    concurrency: int
    num_requests: int
    typical: float = 100.0
    is_balancing: bool = True
    gaps_ms: list[float] = field(default_factory=list)
    num_generated: int = 0
    now: float = 0.0
    num_begun: int = 0

    def run(self) -> float:
        """Tokens a second."""
        budgets = row_budgets({v.name: v.speed for v in self.verifiers}, 2 * MAX_NUM_SEQS)
        for verifier in self.verifiers:
            verifier.max_rows = budgets[verifier.name]
        for _ in range(self.concurrency):
            self._begin()
        tick_at = TICK_MS
        while busy := [v for v in self.verifiers if v.requests]:
            verifier = min(busy, key=lambda v: v.next_at)
            if self.is_balancing and verifier.next_at > tick_at:
                self._rebalance()
                tick_at += TICK_MS
                continue
            self.now = max(self.now, verifier.next_at)
            self._step(verifier)
        return self.num_generated / self.now * 1e3

    def _begin(self) -> None:
        if self.num_begun == self.num_requests:
            return
        dice = random.Random(self.num_begun)
        num_tokens, length = dice.randrange(16, 200), dice.randrange(50, 150)
        request = VirtualRequest(self.num_begun, num_tokens, length, num_tokens)
        self.num_begun += 1
        views = [verifier.view(self.typical) for verifier in self.verifiers]
        chosen = place([(view, request.job(self.typical)) for view in views])
        self._give(request, chosen.name)

    def _give(self, request: VirtualRequest, name: str) -> None:
        verifier = next(v for v in self.verifiers if v.name == name)
        if not verifier.requests:
            verifier.next_at = max(verifier.next_at, self.now)
        verifier.requests.append(request)

    def _step(self, verifier: VirtualVerifier) -> None:
        running = verifier.requests[:MAX_NUM_SEQS]
        budget, done, rows = verifier.max_rows, [], 0
        for request in running:
            computed = min(request.num_pending, budget - rows)
            rows += computed
            request.num_pending -= computed
            if computed and not request.num_pending:
                done.append(request)
        took_ms = verifier.speed.pass_ms(rows) + verifier.speed.overhead_ms
        verifier.next_at = self.now + took_ms
        for request in done:
            self._commit(request, verifier)

    def _commit(self, request: VirtualRequest, verifier: VirtualVerifier) -> None:
        at = verifier.next_at
        if request.last_at is not None:
            self.gaps_ms.append(at - request.last_at)
        request.last_at = at
        request.num_tokens += 1
        request.num_left -= 1
        request.num_pending = 1
        self.num_generated += 1
        if not request.num_left:
            verifier.requests.remove(request)
            self._begin()

    def _rebalance(self) -> None:
        for move in rebalance([verifier.load(self.typical) for verifier in self.verifiers]):
            origin = next(v for v in self.verifiers if v.name == move.origin)
            request = next(r for r in origin.requests if str(r.number) == move.request_id)
            origin.requests.remove(request)
            request.num_pending = request.num_tokens
            request.num_moves += 1
            self._give(request, move.destination)


def slowed(speed: Speed, factor: float) -> Speed:
    """The same machine at a fraction of its speed."""
    return replace(
        speed,
        pass_ms=lambda rows: factor * speed.pass_ms(rows),
        overhead_ms=factor * speed.overhead_ms,
    )
