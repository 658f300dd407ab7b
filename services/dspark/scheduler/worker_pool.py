"""The verifiers of a scheduler: which there are, who gets a request, who inherits one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from typing import Protocol

from dspark.background_task import start_background
from dspark.errors import BackendUnavailable, DSparkError, NotReady
from dspark.scheduler.request import Request
from dspark.scheduler.verifier_link import VerifierLost
from dspark.scheduler.worker import Worker

log = logging.getLogger(__name__)


class WorkerMaker(Protocol):
    """Makes the worker for an address, and closes what it made."""

    def make(self, name: str, pool: WorkerPool) -> Worker: ...
    async def close(self, worker: Worker) -> None: ...


class WorkerPool:
    """One worker for each verifier; ``addresses`` yields the present ones again and again."""

    def __init__(
        self, addresses: Callable[[], AsyncIterator[Collection[str]]], maker: WorkerMaker
    ) -> None:
        self._addresses = addresses
        self._maker = maker
        self._tasks: dict[Worker, asyncio.Task[None]] = {}
        # Not to be given new requests: no address names them any more.
        self._leaving: set[Worker] = set()

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(self._tasks)

    async def run(self) -> None:
        """Follow the addresses until cancelled."""
        async for names in self._addresses():
            await self._follow(names)

    async def close(self) -> None:
        """Stop all workers."""
        for worker in self.workers:
            await self._end(worker)

    def choose(self, arithmetic: str = "") -> Worker:
        """The worker with the least to do, for a new request that wants this arithmetic, or any.

        One that is silent for the moment is taken if there is no other. Raises NotReady before any
        verifier has answered, and BackendUnavailable while all are lost or compute otherwise.
        """
        present = [w for w in self._tasks if w not in self._leaving] or list(self._tasks)
        serving = [w for w in present if w.is_serving] or [w for w in present if w.has_loop]
        if not serving:
            raise self.problem or BackendUnavailable("verifier", "does not answer")
        serving = [worker for worker in serving if worker.computes_as(arithmetic)]
        if not serving:
            raise BackendUnavailable("verifier", "none computes as the one that was lost")
        return min(serving, key=lambda worker: worker.load) if len(serving) > 1 else serving[0]

    def home_of(self, request_id: str) -> Worker | None:
        """The worker that has the live request of this id."""
        return next((w for w in self._tasks if w.live.has(request_id)), None)

    def has_heir(self, worker: Worker) -> bool:
        return any(other is not worker and other.can_inherit(worker) for other in self._tasks)

    def hand_over(self, worker: Worker, error: VerifierLost) -> None:
        """Let others go on with the requests of a lost verifier; those for which none can fail."""
        requests = worker.live.hand_over()
        moved = [request for request in requests if self._move(request, worker)]
        if moved:
            log.warning("%d requests of verifier %s go on at others", len(moved), worker.name)
        for request in requests:
            if request not in moved:
                worker.live.take_over(request)
                worker.live.fail(request, BackendUnavailable("verifier", error.message))

    @property
    def problem(self) -> DSparkError | None:
        """Why no worker serves requests well now, if so."""
        problems = [worker.problem for worker in self._tasks]
        if any(problem is None for problem in problems):
            return None
        return next(filter(None, problems), NotReady("no verifier is known yet"))

    @property
    def is_idle(self) -> bool:
        return all(worker.progress.is_idle for worker in self._tasks)

    def _move(self, request: Request, origin: Worker) -> bool:
        length = request.num_prompt_tokens + request.spec.sampling.max_tokens
        heirs = [w for w in self._tasks if w is not origin and w.can_inherit(origin)]
        heirs = [heir for heir in heirs if length <= heir.max_len]
        if not heirs:
            return False
        heir = min(heirs, key=lambda worker: worker.load)
        heir.live.take_over(request)
        heir.wake()
        return True

    async def _follow(self, names: Collection[str]) -> None:
        known = {worker.name: worker for worker in self._tasks}
        for name in names:
            if name not in known:
                self._begin(self._maker.make(name, self))
        self._leaving = {worker for name, worker in known.items() if name not in names}
        for worker in tuple(self._leaving):
            if not worker.is_needed:
                await self._end(worker)

    def _begin(self, worker: Worker) -> None:
        self._tasks[worker] = start_background(worker.run(), f"worker {worker.name}")

    async def _end(self, worker: Worker) -> None:
        self._leaving.discard(worker)
        task = self._tasks.pop(worker)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._maker.close(worker)
