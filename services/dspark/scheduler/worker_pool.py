"""The verifiers of a scheduler: which there are, who gets a request, who inherits one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Protocol

from dspark.background_task import end, start_background
from dspark.errors import BackendUnavailable, DSparkError, InvalidArgument, NotReady
from dspark.generation import RequestSpec
from dspark.scheduler.books import Books
from dspark.scheduler.moves import MoveReason, MoveWay
from dspark.scheduler.placement import Job, WorkerView, place
from dspark.scheduler.request import Request
from dspark.scheduler.verifier_link import VerifierLost
from dspark.scheduler.worker import Worker
from dspark.scheduler.worker_view import view_of

log = logging.getLogger(__name__)


class WorkerMaker(Protocol):
    """Makes the worker for an address, and closes what it made."""

    def make(self, name: str, pool: WorkerPool) -> Worker: ...
    async def close(self, worker: Worker) -> None: ...


class WorkerPool:
    """One worker for each verifier; ``addresses`` yields the present ones again and again."""

    def __init__(
        self,
        addresses: Callable[[], AsyncIterator[Collection[str]]],
        maker: WorkerMaker,
        books: Books,
    ) -> None:
        self._addresses = addresses
        self._maker = maker
        self._books = books
        self._tasks: dict[Worker, asyncio.Task[None]] = {}
        # No address names them any more.
        self._nameless: set[Worker] = set()
        # Somebody ordered that they run empty.
        self._drained: set[Worker] = set()

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(self._tasks)

    def is_leaving(self, worker: Worker) -> bool:
        """Whether it is not to be given requests, and those that it has are to go elsewhere."""
        return worker in self._nameless or worker in self._drained or worker.verifier.is_ending

    async def run(self) -> None:
        """Follow the addresses until cancelled."""
        async for names in self._addresses():
            await self._follow(names)

    async def close(self) -> None:
        """Stop all workers."""
        for worker in self.workers:
            await self._end(worker)

    def choose(self, spec: RequestSpec) -> Worker:
        """The worker that is done with a new request first, counting what it costs the others.

        One that leaves, or is silent for the moment, is taken if there is no other. Raises NotReady
        before any verifier has answered, and BackendUnavailable while all are lost or compute
        otherwise.
        """
        present = [w for w in self._tasks if not self.is_leaving(w)]
        serving = _serving(present) or _serving(self.workers)
        if not serving:
            raise self.problem or BackendUnavailable("verifier", "does not answer")
        serving = [worker for worker in serving if worker.computes_as(spec.arithmetic)]
        if not serving:
            raise BackendUnavailable("verifier", "none computes as the one that was lost")
        length = len(spec.prompt_token_ids) + spec.sampling.max_tokens
        fitting = [worker for worker in serving if length <= worker.max_len]
        tokens = (*spec.prompt_token_ids, *spec.committed_token_ids)
        return self._best(fitting or serving, spec, tokens)

    def _best(self, workers: Sequence[Worker], spec: RequestSpec, tokens: Sequence[int]) -> Worker:
        if len(workers) == 1:
            return workers[0]
        num_left = spec.sampling.max_tokens + len(spec.prompt_token_ids) - len(tokens)
        num_output = self._books.outputs.left(num_left)
        options: list[tuple[WorkerView, Job]] = []
        for worker in workers:
            cached = worker.likely_cached(spec, tokens)
            view = view_of(worker, self._books.outputs)
            options.append((view, Job(len(tokens) - cached, num_output)))
        chosen = place(options)
        return next(worker for worker in workers if worker.name == chosen.name)

    def order_drain(self, name: str, *, resume: bool = False) -> Worker:
        """Let a worker run empty, or end that; raises InvalidArgument for one that is not here."""
        worker = next((worker for worker in self._tasks if worker.name == name), None)
        if worker is None:
            known = ", ".join(worker.name for worker in self._tasks) or "none"
            raise InvalidArgument("worker", f"{name!r} is no verifier here (there are: {known})")
        (self._drained.discard if resume else self._drained.add)(worker)
        return worker

    def home_of(self, request_id: str) -> Worker | None:
        """The worker that has the live request of this id."""
        return next((w for w in self._tasks if w.live.has(request_id)), None)

    def has_heir(self, worker: Worker) -> bool:
        return any(other is not worker and other.can_inherit(worker) for other in self._tasks)

    def heir_of(self, request: Request, origin: Worker, *, even_leaving: bool) -> Worker | None:
        """The best worker to go on with a request of another one with the very same tokens."""
        heirs = [w for w in self._tasks if w is not origin and w.can_inherit(origin)]
        heirs = [heir for heir in heirs if request.max_len <= heir.max_len]
        staying = [heir for heir in heirs if not self.is_leaving(heir)]
        if not staying and even_leaving:
            staying = heirs
        return self._best(staying, request.spec, request.token_ids) if staying else None

    def hand_over(self, worker: Worker, error: VerifierLost) -> None:
        """Let others go on with the requests of a lost verifier; those for which none can fail."""
        requests = worker.live.hand_over()
        num_moved = 0
        for request in requests:
            heir = self.heir_of(request, worker, even_leaving=True)
            if heir is None:
                worker.live.take_over(request)
                worker.live.fail(request, BackendUnavailable("verifier", error.message))
            else:
                num_moved += 1
                self.give(request, heir, MoveReason.LOST, MoveWay.RECOMPUTE)
        if num_moved:
            log.warning("%d requests of verifier %s go on at others", num_moved, worker.name)

    def give(self, request: Request, heir: Worker, reason: MoveReason, way: MoveWay) -> None:
        """Let a worker go on with a request that another one gave up."""
        heir.live.take_over(request)
        heir.note_prefix(request)
        self._books.moves[reason, way] += 1
        heir.wake()

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

    async def end_unneeded(self) -> None:
        """Forget the workers that no address names and that have nothing left to do."""
        for worker in tuple(self._nameless):
            if not worker.is_needed:
                await self._end(worker)

    async def _follow(self, names: Collection[str]) -> None:
        known = {worker.name: worker for worker in self._tasks}
        for name in names:
            if name not in known:
                self._begin(self._maker.make(name, self))
        self._nameless = {worker for name, worker in known.items() if name not in names}
        await self.end_unneeded()

    def _begin(self, worker: Worker) -> None:
        self._tasks[worker] = start_background(worker.run(), f"worker {worker.name}")

    async def _end(self, worker: Worker) -> None:
        self._nameless.discard(worker)
        self._drained.discard(worker)
        task = self._tasks.pop(worker, None)
        if task is None:
            return
        worker.retire()
        await end([task])
        await self._maker.close(worker)


def _serving(workers: Sequence[Worker]) -> list[Worker]:
    """Those that step now; if there are none, those that are silent for the moment."""
    return [w for w in workers if w.is_serving] or [w for w in workers if w.has_loop]
