"""One step: schedule, draft, verify, apply."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from dspark.clock import monotonic
from dspark.scheduler import step_trace
from dspark.scheduler.batcher import Batch, Batcher
from dspark.scheduler.drafting import Drafting, Drafts
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.progress import Progress
from dspark.scheduler.results import Applied, ResultApplier
from dspark.scheduler.step_lessons import StepLessons
from dspark.scheduler.step_plans import PlannedStep, StepPlans
from dspark.scheduler.step_timing import StepClock, StepTiming
from dspark.scheduler.step_trace import StepFacts, StepTrace
from dspark.scheduler.verifier_link import VerifierLink
from dspark.scheduler.waves import Wave
from dspark.step import StepOutcome, StepPlan

# Pause after a step that got nothing done, such as one for which the KV pool had no room.
IDLE_PAUSE_S = 0.05


class StepRunner:
    """Runs the steps of one wave, one after the other."""

    def __init__(
        self,
        live: LiveRequests,
        batcher: Batcher,
        drafting: Drafting,
        plans: StepPlans,
        verifier: VerifierLink,
        applier: ResultApplier,
        lessons: StepLessons,
        progress: Progress,
        wave: Wave,
    ) -> None:
        self.batcher = batcher
        self.drafting = drafting
        self.plans = plans
        self._live = live
        self._verifier = verifier
        self._applier = applier
        self._lessons = lessons
        self._progress = progress
        self._wave = wave
        self._waves = wave.waves

    def limit_rows(self, max_rows: int) -> None:
        """Give no more rows to a step from the next one on; running requests must have one each."""
        if max_rows != self.batcher.max_rows:
            self.batcher = replace(self.batcher, max_rows=max_rows)

    async def step(self) -> None:
        """One step with all of the wave's requests, and with those that it admits."""
        clock = StepClock(monotonic())
        drafting, blocks, index = self.drafting, self._waves.blocks, self._wave.index
        max_draft_tokens = drafting.knowledge.limits.max_draft_tokens
        batcher = self.batcher.stretched(self._waves.exposure.stretch.value)
        batch = batcher.schedule(self._live, blocks.free_for(index), index)
        blocks.hold(index, self.batcher.blocks_of_trees(batch, max_draft_tokens))
        epochs = [rows.request.epoch for rows in batch.scheduled]
        trace = step_trace.begin(batch)
        exposure, present = self._waves.exposure, drafting.present
        present.exposed, present.values = exposure.drafting.value, exposure.values
        drafts = await drafting.draft(batch, self._overhead_ms)
        await self._compute(batch.without_changed(epochs), drafts, clock, trace)

    async def step_with(self, batch: Batch) -> None:
        """One step with just this batch, and without drafts."""
        clock = StepClock(monotonic())
        await self._compute(batch, {}, clock, step_trace.begin(batch))

    @property
    def _overhead_ms(self) -> float:
        """Of a step that asks nobody."""
        return self._waves.exposure.overhead.plain_ms

    async def _compute(
        self, batch: Batch, drafts: Drafts, clock: StepClock, trace: StepTrace | None
    ) -> None:
        """Verify a batch with its drafts, and apply what comes back.

        ``trace`` is None where no request of the step is sampled.
        """
        clock.drafted = monotonic()
        planned = self.plans.next(batch, drafts)
        self.drafting.lessons.observe(self._live.running)
        # Runs once the call below is on its way.
        asyncio.get_running_loop().call_soon(
            self.drafting.askings.foresee, batch, self._overhead_ms
        )
        outcome = await self._verify(planned, trace)
        clock.verified = monotonic()
        applied = self._applier.apply(planned.plan.work, planned.requests, outcome)
        self._finish(planned.plan, outcome, applied, clock, trace)
        if not applied.num_done and planned.requests:
            await asyncio.sleep(IDLE_PAUSE_S)

    async def _verify(self, planned: PlannedStep, trace: StepTrace | None) -> StepOutcome:
        blocks, index = self._waves.blocks, self._wave.index
        blocks.hold(index, sum(map(self.batcher.blocks_of, planned.plan.work)))
        blocks.sent(index)
        try:
            return await self._verifier.step(planned.plan)
        except BaseException as error:
            if trace is not None:
                trace.fail(error)
            blocks.drop(index)
            # Releases of a step without an outcome are due still.
            self._live.releases.extend(planned.plan.releases)
            raise

    def _finish(
        self,
        plan: StepPlan,
        outcome: StepOutcome,
        applied: Applied,
        clock: StepClock,
        trace: StepTrace | None,
    ) -> None:
        self._waves.blocks.settle(self._wave.index, outcome.num_free_blocks)
        self._progress.stepped(self._wave.index)
        timing = self._lessons.learn(clock, plan, outcome)
        for request in applied.decoded:
            request.timings.append(timing)
        facts = None if trace is None else self._facts(plan, outcome, timing, applied)
        self._applier.finish(applied)
        # Streams are written after the next step's call is on its way, which is queued before them.
        asyncio.get_running_loop().call_soon(applied.push_chunks)
        if trace is not None and facts is not None:
            trace.finish()
            asyncio.get_running_loop().call_soon(trace.record, facts)

    def _facts(
        self, plan: StepPlan, outcome: StepOutcome, timing: StepTiming, applied: Applied
    ) -> StepFacts:
        price, offered = self.drafting.knowledge.policy.price, self.drafting.offered
        return StepFacts(plan, outcome, timing, price, dict(applied.chunks), offered)
