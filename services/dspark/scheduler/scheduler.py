"""The scheduler: takes requests, keeps verifiers busy with them, and says how it is doing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dspark.clock import monotonic
from dspark.errors import (
    Draining,
    DSparkError,
    DuplicateRequest,
    NotReady,
    UnknownRequest,
)
from dspark.generation import RequestSpec
from dspark.scheduler.books import Books
from dspark.scheduler.config import SchedulerConfig
from dspark.scheduler.limits import Limits
from dspark.scheduler.request import Request
from dspark.scheduler.stats import Totals
from dspark.scheduler.worker import Worker
from dspark.scheduler.worker_pool import WorkerPool
from dspark.step import VerifierInfo

DRAIN_POLL_S = 0.02
# Time for a last step that frees on the verifiers what has been ended here.
RELEASE_S = 1.0


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """What is served; meanings as in the message GetSchedulerInfoResponse."""

    verifier: VerifierInfo
    sources: tuple[str, ...]
    policy: str


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """What goes on now, and the counters since the start; sums over all workers."""

    num_running: int
    num_waiting: int
    num_free_blocks: int
    num_blocks: int
    # of the first verifier that is known, 0 before there is one
    block_size: int
    totals: Totals


class Scheduler:
    """Runs requests on the verifiers of a pool."""

    def __init__(self, config: SchedulerConfig, pool: WorkerPool, books: Books) -> None:
        self.pool = pool
        self.books = books
        self.totals = books.totals
        self.timings = books.timings
        self._config = config
        self._is_draining = False

    async def run(self) -> None:
        """Serve until cancelled."""
        await self.pool.run()

    def submit(self, spec: RequestSpec) -> Request:
        """Check and queue a request; its events are in ``Request.stream``.

        Raises InvalidArgument, ContextLength, DuplicateRequest, QueueFull, Overloaded, NotReady,
        Draining, or BackendUnavailable while every verifier is lost.
        """
        if self._is_draining:
            raise Draining("this scheduler is shutting down")
        worker = self.pool.choose(spec)
        spec = Limits.of(worker.verifier.info, worker.known_sources).check(spec)
        if self.pool.home_of(spec.request_id) is not None:
            raise DuplicateRequest(spec.request_id)
        with self.totals.classes.refusals_of(spec.request_class):
            is_full = self.status.num_waiting >= self._config.max_waiting
            request = worker.live.submit(spec, is_full=is_full)
        worker.note_prefix(request)
        worker.wake()
        return request

    def cancel(self, request: Request) -> None:
        """The client is gone: free everything in the next step. Harmless after the end."""
        worker = self.pool.home_of(request.request_id)
        if worker is not None and worker.live.cancel(request):
            worker.wake()

    def stop(self, request_id: str) -> None:
        """End a request in good order; raises UnknownRequest."""
        worker = self.pool.home_of(request_id)
        if worker is None:
            raise UnknownRequest(request_id)
        worker.live.stop(request_id)
        worker.wake()

    def drain_worker(self, name: str, *, resume: bool = False) -> int:
        """Let a verifier run empty, or end that; returns how many requests it still has.

        Raises InvalidArgument for one that is not here.
        """
        return len(self.pool.order_drain(name, resume=resume).live)

    async def drain(self, timeout_s: float) -> None:
        """Refuse new requests, let the live ones end, then end the rest with an error."""
        self._is_draining = True
        give_up_at = monotonic() + timeout_s
        while self._num_live and monotonic() < give_up_at:
            await asyncio.sleep(DRAIN_POLL_S)
        for worker in self._workers:
            worker.live.fail_all(Draining("this scheduler is shutting down"))
            worker.wake()
        give_up_at = max(give_up_at, monotonic() + RELEASE_S)
        while not self.is_idle and monotonic() < give_up_at:
            await asyncio.sleep(DRAIN_POLL_S)

    @property
    def info(self) -> SchedulerInfo:
        """Raises NotReady before a verifier has answered."""
        known = [worker for worker in self._workers if worker.verifier.is_known]
        if not known:
            raise NotReady("no verifier has answered yet")
        first = next((worker for worker in known if worker.is_serving), known[0])
        return SchedulerInfo(first.verifier.info, first.known_sources or (), self._config.policy)

    @property
    def status(self) -> SchedulerStatus:
        workers = self._workers
        return SchedulerStatus(
            num_running=sum(len(worker.live.running) for worker in workers),
            num_waiting=sum(len(worker.live.waiting) for worker in workers),
            num_free_blocks=sum(worker.num_free_blocks for worker in workers),
            num_blocks=sum(worker.num_blocks for worker in workers),
            block_size=next(
                (w.verifier.info.block_size for w in workers if w.verifier.is_known), 0
            ),
            totals=self.totals,
        )

    @property
    def is_idle(self) -> bool:
        return self.pool.is_idle

    @property
    def problem(self) -> DSparkError | None:
        """Why no requests are served well now, if so."""
        if self._is_draining:
            return Draining("this scheduler is shutting down")
        return self.pool.problem

    @property
    def is_healthy(self) -> bool:
        """Ready for requests."""
        return self.problem is None

    @property
    def _workers(self) -> tuple[Worker, ...]:
        return self.pool.workers

    @property
    def _num_live(self) -> int:
        return sum(len(worker.live) for worker in self._workers)
