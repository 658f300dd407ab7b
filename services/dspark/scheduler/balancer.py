"""Moves requests between verifiers: away from those that leave, and from hot ones to cold ones.

A request that moves is given up between two steps of its verifier and goes on at the other from its
committed tokens, so its tokens are those that it would have had. Where shipping its K/V is cheaper
than computing it anew, that happens first, while the request runs on.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Protocol

from dspark.background_task import end, start_background
from dspark.scheduler.moves import MoveReason, MoveWay
from dspark.scheduler.output_lengths import OutputLengths
from dspark.scheduler.rebalance import Load, rebalance
from dspark.scheduler.request import Request
from dspark.scheduler.row_budgets import row_budgets
from dspark.scheduler.worker import Worker
from dspark.scheduler.worker_pool import WorkerPool
from dspark.scheduler.worker_view import load_of, speed_of

log = logging.getLogger(__name__)

TICK_S = 0.25
# Ticks from one look at the balance to the next.
REBALANCE_TICKS = 4
# Of a verifier that leaves, requests that begin to move in a tick: the others take them in between
# their own work.
MAX_EVACUATED = 8
# Requests whose K/V is on its way at a time: it goes through this process.
MAX_SHIPPED = 4
# Of a verifier, requests that are looked at in one decision: those that would be served last.
MAX_CONSIDERED = 16


class Shipping(Protocol):
    """Brings K/V from one verifier to another."""

    def num_shipped(self, request: Request, origin: Worker, heir: Worker) -> int:
        """Tokens whose K/V is worth shipping; 0 where computing it anew is cheaper, or needed."""
        ...

    async def ship(self, request: Request, origin: Worker, heir: Worker) -> bool:
        """Whether it arrived."""
        ...


class Balancer:
    """Runs beside the workers of a pool; ``tick`` is one look at them."""

    def __init__(
        self,
        pool: WorkerPool,
        outputs: OutputLengths,
        shipping: Shipping | None = None,
        *,
        is_balancing: bool = True,
    ) -> None:
        self._pool = pool
        self._outputs = outputs
        self._shipping = shipping
        self._is_balancing = is_balancing
        self._ticks = itertools.count(1)
        # Requests whose K/V is on its way.
        self._shipped: dict[Request, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Tick until cancelled; a failure, which is a bug, costs one tick."""
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.tick()
            except Exception as error:
                log.error("verifiers could not be balanced", exc_info=error)

    async def tick(self) -> None:
        workers = self._pool.workers
        self._limit_rows()
        for worker in workers:
            if worker.has_loop and self._pool.is_leaving(worker):
                self._evacuate(worker)
        if next(self._ticks) % REBALANCE_TICKS == 0 and self._is_balancing and len(workers) > 1:
            self._rebalance()
        await self._pool.end_unneeded()

    async def close(self) -> None:
        """Stop what is under way; requests stay where they are."""
        await end(tuple(self._shipped.values()))

    def _limit_rows(self) -> None:
        serving = {worker.name: worker for worker in self._pool.workers if worker.is_serving}
        places = [w.batcher.max_num_seqs for w in serving.values() if w.batcher is not None]
        speeds = {name: speed_of(worker) for name, worker in serving.items()}
        for name, rows in row_budgets(speeds, 2 * max(places, default=1)).items():
            serving[name].limit_rows(rows)

    def _evacuate(self, worker: Worker) -> None:
        for request in self._movable(worker)[:MAX_EVACUATED]:
            heir = self._pool.heir_of(request, worker, even_leaving=False)
            if heir is not None:
                self._begin(request, worker, heir, MoveReason.DRAIN)

    def _rebalance(self) -> None:
        workers = {worker.name: worker for worker in self._pool.workers if worker.is_serving}
        for move in rebalance([self._load(worker, workers) for worker in workers.values()]):
            origin, heir = workers[move.origin], workers[move.destination]
            request = origin.live.get(move.request_id)
            if request is not None:
                self._begin(request, origin, heir, MoveReason.BALANCE)

    def _load(self, worker: Worker, workers: dict[str, Worker]) -> Load:
        is_leaving = self._pool.is_leaving(worker)
        requests = [] if is_leaving else self._movable(worker)[:MAX_CONSIDERED]
        heirs = {name: w for name, w in workers.items() if w is not worker}
        cached = {request: self._shippable(request, worker, heirs) for request in requests}
        return load_of(worker, self._outputs, requests, cached, takes=not is_leaving)

    def _shippable(
        self, request: Request, origin: Worker, heirs: dict[str, Worker]
    ) -> dict[str, int]:
        if self._shipping is None:
            return {}
        shipping = self._shipping
        return {name: shipping.num_shipped(request, origin, heir) for name, heir in heirs.items()}

    def _movable(self, worker: Worker) -> list[Request]:
        """Requests that are not moving yet, those that would be served last first."""
        requests = sorted(worker.live, key=lambda request: request.order, reverse=True)
        moving = self._shipped
        return [r for r in requests if r not in moving and not worker.live.is_departing(r)]

    def _begin(self, request: Request, origin: Worker, heir: Worker, reason: MoveReason) -> None:
        if self._shipping is None or not self._shipping.num_shipped(request, origin, heir):
            self._depart(request, origin, heir, reason, MoveWay.RECOMPUTE)
            return
        if len(self._shipped) >= MAX_SHIPPED:
            # A later tick sees to it.
            return
        travel = self._ship(self._shipping, request, origin, heir, reason)
        self._shipped[request] = start_background(travel, f"K/V of {request.request_id}")

    async def _ship(
        self,
        shipping: Shipping,
        request: Request,
        origin: Worker,
        heir: Worker,
        reason: MoveReason,
    ) -> None:
        try:
            has_arrived = await shipping.ship(request, origin, heir)
        finally:
            del self._shipped[request]
        way = MoveWay.SHIP if has_arrived else MoveWay.RECOMPUTE
        self._depart(request, origin, heir, reason, way)

    def _depart(
        self, request: Request, origin: Worker, heir: Worker, reason: MoveReason, way: MoveWay
    ) -> None:
        def arrive(request: Request) -> None:
            self._arrive(request, origin, heir, reason, way)

        origin.live.depart(request, arrive)
        origin.wake()

    def _arrive(
        self, request: Request, origin: Worker, heir: Worker, reason: MoveReason, way: MoveWay
    ) -> None:
        if not heir.can_inherit(origin):
            # It was lost meanwhile, so the request stays for now.
            origin.live.take_over(request)
            return
        if reason is MoveReason.BALANCE and request.epoch:
            request.num_moves += 1
        log.info("request %s goes on at verifier %s: %s", request.request_id, heir.name, way.value)
        self._pool.give(request, heir, reason, way)
