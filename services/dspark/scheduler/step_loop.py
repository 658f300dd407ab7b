"""When to step: again while there is work, and what becomes of requests whose step is refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from dspark.errors import DSparkError, InternalError
from dspark.scheduler.batcher import Batch, ScheduledRows
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.progress import Progress
from dspark.scheduler.request import Request
from dspark.scheduler.step_books import StepBooks
from dspark.scheduler.step_runner import StepRunner
from dspark.scheduler.verifier_link import VerifierLost
from dspark.scheduler.waves import Wave

log = logging.getLogger(__name__)

# After this many refused steps in a row each request is tried alone, to find the one at fault.
MAX_REFUSALS = 2
# While idle, what candidates have not heard yet is tried again this often.
NEWS_INTERVAL_S = 0.1


class StepLoop:
    """Drives one wave of a verifier. Everything runs on one event loop; only calls are awaited."""

    def __init__(
        self,
        runner: StepRunner,
        live: LiveRequests,
        progress: Progress,
        books: StepBooks,
        wave: Wave,
    ) -> None:
        self._runner = runner
        self._live = live
        self._progress = progress
        self._books = books
        self._wave = wave
        self._num_refusals = 0
        self._work = asyncio.Event()
        wave.wake = self.wake

    def wake(self) -> None:
        """There may be work: a request came, or went."""
        self._work.set()

    def forget(self, request: Request) -> None:
        """It ended, or left: nothing that is decided for it is kept."""
        self._runner.drafting.askings.forget(request)

    def limit_rows(self, max_rows: int) -> None:
        """As the runner's ``limit_rows``."""
        self._runner.limit_rows(max_rows)

    async def run(self) -> None:
        """Step until the task is cancelled or VerifierLost is raised."""
        if self._wave.index:
            # A verifier that ends takes steps only of those that it knows.
            await self._runner.step_with(Batch((), 0))
        while True:
            await self._wait_for_work()
            self._wave.turn()
            if not self._wave.has_work:
                continue
            try:
                await self._runner.step()
            except VerifierLost:
                raise
            except Exception as error:
                await self._refused(error)
            else:
                self._num_refusals = 0

    async def _wait_for_work(self) -> None:
        wave, lessons = self._wave, self._runner.drafting.lessons
        while not wave.has_work:
            wave.rest()
            # What ended last is told to candidates even when nothing runs.
            has_news = lessons.has_ends and not self._live.running
            if has_news:
                lessons.observe(())
            self._progress.idle(wave.index)
            self._work.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NEWS_INTERVAL_S if has_news else None):
                    await self._work.wait()
        self._progress.busy(wave.index)

    async def _refused(self, error: Exception) -> None:
        """Start all running requests anew from their committed tokens, if need be one by one."""
        log.error("step %d failed", self._runner.plans.last_id, exc_info=error)
        self._books.num_failures += 1
        self._runner.plans.go_without_features()
        suspects = self._wave.running
        for request in suspects:
            self._live.requeue(request)
        self._num_refusals += 1
        if self._num_refusals >= MAX_REFUSALS:
            self._num_refusals = 0
            for request in suspects:
                await self._try_alone(request)

    async def _try_alone(self, request: Request) -> None:
        """One step of this request only; it ends if the verifier refuses that as well."""
        if request.is_finished:
            return
        self._live.admit(request)
        request.wave = self._wave.index
        rows = min(request.num_pending_tokens, self._runner.batcher.max_rows)
        batch = Batch((ScheduledRows(request, rows, is_admission=True),), max_nodes=0)
        try:
            await self._runner.step_with(batch)
        except VerifierLost:
            raise
        except Exception as error:
            log.error("request %s fails alone", request.request_id, exc_info=error)
            known = error if isinstance(error, DSparkError) else InternalError("internal error")
            if not request.is_finished:
                self._live.fail(request, known)
