"""The step: schedule, draft, verify, apply; again while there is work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dspark.clock import monotonic
from dspark.errors import DSparkError, InternalError
from dspark.scheduler import step_trace
from dspark.scheduler.batcher import Batch, Batcher, ScheduledRows
from dspark.scheduler.drafting import Drafting, Drafts
from dspark.scheduler.feature_wishes import NO_FEATURES, FeatureWish
from dspark.scheduler.forced_nodes import forced_limits
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.pace import decodes_all
from dspark.scheduler.progress import Progress
from dspark.scheduler.request import Request
from dspark.scheduler.results import Applied, ResultApplier
from dspark.scheduler.step_books import StepBooks
from dspark.scheduler.step_timing import StepTiming, TimingRing
from dspark.scheduler.step_trace import StepFacts, StepTrace, traceparents_of
from dspark.scheduler.verifier_link import VerifierLink, VerifierLost
from dspark.scheduler.wave_choice import StepParts, WaveStep
from dspark.scheduler.waves import Wave
from dspark.step import SequenceAdmission, SequenceWork, StepOutcome, StepPlan
from dspark.token_tree import TokenTree

log = logging.getLogger(__name__)

# After this many refused steps in a row each request is tried alone, to find the one at fault.
MAX_REFUSALS = 2
# The features that a refused step asked for may be what is at fault: so many steps go without.
FEATURELESS_STEPS = 100
# Pause after a step that got nothing done, such as one for which the KV pool had no room.
IDLE_PAUSE_S = 0.05
# While idle, what candidates have not heard yet is tried again this often.
NEWS_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A plan and the requests its work entries stand for."""

    plan: StepPlan
    requests: tuple[Request, ...]


@dataclass(slots=True)
class _Clock:
    """When the parts of the present step began, by dspark.clock."""

    started: float
    drafted: float = 0.0
    verified: float = 0.0
    # None where no request of the step is sampled
    trace: StepTrace | None = None


class StepLoop:
    """Drives one wave of a verifier. Everything runs on one event loop; only calls are awaited."""

    def __init__(
        self,
        scheduler_id: str,
        live: LiveRequests,
        batcher: Batcher,
        drafting: Drafting,
        verifier: VerifierLink,
        applier: ResultApplier,
        progress: Progress,
        timings: TimingRing,
        books: StepBooks,
        wave: Wave,
    ) -> None:
        """``scheduler_id`` is this loop's alone: the verifier answers the last step of each."""
        self._scheduler_id = scheduler_id
        self._live = live
        self._batcher = batcher
        self._drafting = drafting
        self._max_draft_tokens = drafting.limits.max_draft_tokens
        self._verifier = verifier
        self._applier = applier
        self._progress = progress
        self._timings = timings
        self._books = books
        self._wave = wave
        self._waves = wave.waves
        self._step_id = 0
        self._num_refusals = 0
        self._featureless_until = 0
        self._work = asyncio.Event()
        wave.wake = self.wake

    def wake(self) -> None:
        """There may be work: a request came, or went."""
        self._work.set()

    def forget(self, request: Request) -> None:
        """It ended, or left: nothing that is decided for it is kept."""
        self._drafting.forget(request)

    def limit_rows(self, max_rows: int) -> None:
        """Give no more rows to a step from the next one on; running requests must have one each."""
        if max_rows != self._batcher.max_rows:
            self._batcher = replace(self._batcher, max_rows=max_rows)

    async def run(self) -> None:
        """Step until the task is cancelled or VerifierLost is raised."""
        if self._wave.index:
            # A verifier that ends takes steps only of those that it knows.
            await self._compute(Batch((), 0), {}, _Clock(monotonic()))
        while True:
            await self._wait_for_work()
            self._wave.turn()
            if not self._wave.has_work:
                continue
            try:
                await self.step()
            except VerifierLost:
                raise
            except Exception as error:
                await self._refused(error)

    async def step(self) -> None:
        clock = _Clock(monotonic())
        blocks, index = self._waves.blocks, self._wave.index
        batch = self._batcher.schedule(self._live, blocks.free_for(index), index)
        blocks.hold(index, self._batcher.blocks_of_trees(batch, self._max_draft_tokens))
        epochs = [rows.request.epoch for rows in batch.scheduled]
        clock.trace = step_trace.begin(batch)
        exposure, drafting = self._waves.exposure, self._drafting
        drafting.exposed, drafting.values = exposure.drafting.value, exposure.values
        drafts = await drafting.draft(batch, self._overhead_ms)
        await self._compute(batch.without_changed(epochs), drafts, clock)

    @property
    def _overhead_ms(self) -> float:
        """Of a step that asks nobody."""
        return self._waves.exposure.overhead.plain_ms

    async def _compute(self, batch: Batch, drafts: Drafts, clock: _Clock) -> None:
        """Verify a batch with its drafts, and apply what comes back."""
        clock.drafted = monotonic()
        planned = self._plan(batch, drafts)
        self._drafting.observe(self._live.running)
        # Runs once the call below is on its way.
        asyncio.get_running_loop().call_soon(self._drafting.foresee, batch, self._overhead_ms)
        outcome = await self._verify(planned, clock)
        clock.verified = monotonic()
        applied = self._applier.apply(planned.plan.work, planned.requests, outcome)
        self._finish_step(clock, planned.plan, outcome, applied)
        if not applied.num_done and planned.requests:
            await asyncio.sleep(IDLE_PAUSE_S)

    async def _wait_for_work(self) -> None:
        wave = self._wave
        while not wave.has_work:
            wave.rest()
            # What ended last is told to candidates even when nothing runs.
            has_news = self._drafting.has_ends and not self._live.running
            if has_news:
                self._drafting.observe(())
            self._progress.idle(wave.index)
            self._work.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NEWS_INTERVAL_S if has_news else None):
                    await self._work.wait()
        self._progress.busy(wave.index)

    def _plan(self, batch: Batch, drafts: Drafts) -> PlannedStep:
        rows = batch.scheduled
        self._step_id += 1
        wish = NO_FEATURES
        if self._step_id > self._featureless_until:
            wish = self._drafting.feature_wish([r.request for r in rows])
        forced = {} if self._drafting.policy.is_off else forced_limits(batch, rows, drafts)
        plan = StepPlan(
            scheduler_id=self._scheduler_id,
            step_id=self._step_id,
            releases=self._live.take_releases(),
            admissions=tuple(_admission(r.request) for r in rows if r.is_admission),
            work=tuple(
                _work(r, drafts.get(r.request), wish, forced.get(r.request, 0)) for r in rows
            ),
            top_k=self._drafting.top_k,
            traceparents=traceparents_of(r.request for r in rows),
            compute_ahead=not forced and self._expects_plain_step(rows),
            feature_layers=wish.layers,
        )
        return PlannedStep(plan, tuple(r.request for r in rows))

    def _expects_plain_step(self, rows: Sequence[ScheduledRows]) -> bool:
        """Whether the next step is going to have the same requests, and nothing but their rows."""
        return (
            self._verifier.info.computes_ahead
            and not self._live.waiting
            and self._wave.is_alone
            and all(r.commits for r in rows)
            and self._drafting.asks_nothing_next([r.request for r in rows])
        )

    async def _verify(self, planned: PlannedStep, clock: _Clock) -> StepOutcome:
        blocks, index = self._waves.blocks, self._wave.index
        blocks.hold(index, sum(map(self._batcher.blocks_of, planned.plan.work)))
        blocks.sent(index)
        try:
            return await self._verifier.step(planned.plan)
        except BaseException as error:
            if clock.trace is not None:
                clock.trace.fail(error)
            blocks.drop(index)
            # Releases of a step without an outcome are due still.
            self._live.releases.extend(planned.plan.releases)
            raise

    def _finish_step(
        self, clock: _Clock, plan: StepPlan, outcome: StepOutcome, applied: Applied
    ) -> None:
        self._num_refusals = 0
        self._waves.blocks.settle(self._wave.index, outcome.num_free_blocks)
        self._progress.stepped(self._wave.index)
        forward_ms, ahead_ms = outcome.forward_ns / 1e6, outcome.ahead_ns / 1e6
        propose_ms = self._drafting.waited_ms
        now = monotonic()
        own_ms = self._waves.finished(clock.started, now)
        timing = StepTiming(
            propose_ms=propose_ms,
            verify_ms=(clock.verified - clock.drafted) * 1e3,
            forward_ms=forward_ms,
            overhead_ms=max(own_ms - (forward_ms - ahead_ms), 0.0),
            ahead_ms=ahead_ms,
        )
        self._learn_costs(outcome, forward_ms, own_ms)
        parts = None
        if decodes_all(plan, outcome):
            parts = _parts(outcome, propose_ms, (now - clock.started) * 1e3)
        num_tokens = sum(len(result.committed_token_ids) for result in outcome.results)
        step = WaveStep(len(plan.work), num_tokens, own_ms, timing.overhead_ms, parts)
        self._waves.choose(step, self._pass_ms)
        if self._live.waiting:
            self._live.rates.observe(plan, outcome, own_ms / 1e3)
        self._timings.add(timing)
        self._books.observe(timing, plan, outcome)
        for request in applied.decoded:
            request.timings.append(timing)
        facts = None if clock.trace is None else self._facts(plan, outcome, timing, applied)
        self._applier.finish(applied)
        # Streams are written after the next step's call is on its way, which is queued before them.
        asyncio.get_running_loop().call_soon(applied.push_chunks)
        if clock.trace is not None and facts is not None:
            clock.trace.finish()
            asyncio.get_running_loop().call_soon(clock.trace.record, facts)

    def _facts(
        self, plan: StepPlan, outcome: StepOutcome, timing: StepTiming, applied: Applied
    ) -> StepFacts:
        drafting = self._drafting
        chunks = dict(applied.chunks)
        return StepFacts(plan, outcome, timing, drafting.policy.price, chunks, drafting.offered)

    def _pass_ms(self, num_requests: float) -> float:
        """What a pass takes in which so many requests decode."""
        return self._drafting.pass_ms(num_requests * self._books.pace.rows_per_decode)

    def _learn_costs(self, outcome: StepOutcome, forward_ms: float, own_ms: float) -> None:
        """Only steps of one pass say what a pass of so many rows costs."""
        if outcome.num_ahead_rows not in (0, outcome.num_rows):
            return
        drafting, is_ahead = self._drafting, outcome.num_ahead_rows > 0
        drafting.note_forward(outcome.num_rows, forward_ms)
        self._waves.exposure.observe(own_ms - forward_ms, drafting.took_ms, is_ahead=is_ahead)
        drafting.lost_ms = self._waves.exposure.overhead.lost_ms

    async def _refused(self, error: Exception) -> None:
        """Start all running requests anew from their committed tokens, if need be one by one."""
        log.error("step %d failed", self._step_id, exc_info=error)
        self._books.num_failures += 1
        self._featureless_until = self._step_id + FEATURELESS_STEPS
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
        rows = min(request.num_pending_tokens, self._batcher.max_rows)
        batch = Batch((ScheduledRows(request, rows, is_admission=True),), max_nodes=0)
        clock = _Clock(monotonic(), trace=step_trace.begin(batch))
        try:
            await self._compute(batch, {}, clock)
        except VerifierLost:
            raise
        except Exception as error:
            log.error("request %s fails alone", request.request_id, exc_info=error)
            known = error if isinstance(error, DSparkError) else InternalError("internal error")
            if not request.is_finished:
                self._live.fail(request, known)


def _parts(outcome: StepOutcome, propose_ms: float, wall_ms: float) -> StepParts:
    """What a step took, without the time that it waited for another wave's."""
    waited_ms = outcome.queue_ns / 1e6
    pass_ms = (outcome.forward_ns - outcome.ahead_ns) / 1e6
    held_ms = max(outcome.total_ns / 1e6 - waited_ms, pass_ms)
    return StepParts(pass_ms, held_ms - pass_ms, wall_ms - waited_ms - held_ms, propose_ms)


def _admission(request: Request) -> SequenceAdmission:
    return SequenceAdmission(
        request_id=request.request_id,
        epoch=request.epoch,
        token_ids=tuple(request.token_ids),
        num_prompt_tokens=request.num_prompt_tokens,
        sampling=request.spec.sampling,
        cache_salt=request.spec.cache_salt,
        use_prefix_cache=request.spec.use_prefix_cache,
    )


def _work(
    rows: ScheduledRows, tree: TokenTree | None, wish: FeatureWish, max_forced: int
) -> SequenceWork:
    return SequenceWork(
        request_id=rows.request.request_id,
        epoch=rows.request.epoch,
        base_len=len(rows.request.token_ids),
        max_pending_rows=rows.max_pending_rows,
        tree=tree or TokenTree(),
        num_features=wish.of(rows.request.spec.speculation),
        max_forced_nodes=max_forced,
    )
