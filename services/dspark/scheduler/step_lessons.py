"""What a finished step teaches: where its time went, and by that costs, waves and speeds."""

from __future__ import annotations

import math

from dspark.clock import monotonic
from dspark.scheduler.drafting import Drafting
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.pace import decodes_all
from dspark.scheduler.step_books import StepBooks
from dspark.scheduler.step_timing import StepClock, StepTiming, TimingRing
from dspark.scheduler.wave_choice import StepParts, WaveStep
from dspark.scheduler.waves import Waves
from dspark.step import StepOutcome, StepPlan


class StepLessons:
    """From the steps of one wave, for all waves of its verifier."""

    def __init__(
        self,
        live: LiveRequests,
        drafting: Drafting,
        waves: Waves,
        timings: TimingRing,
        books: StepBooks,
    ) -> None:
        self._live = live
        self._drafting = drafting
        self._waves = waves
        self._timings = timings
        self._books = books

    def learn(self, clock: StepClock, plan: StepPlan, outcome: StepOutcome) -> StepTiming:
        """Take in a step that is over now."""
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
        self._learn_stretch(plan, outcome)
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
        return timing

    def _learn_costs(self, outcome: StepOutcome, forward_ms: float, own_ms: float) -> None:
        """Only steps of one pass say what a pass of so many rows costs."""
        if outcome.num_ahead_rows not in (0, outcome.num_rows):
            return
        drafting, exposure = self._drafting, self._waves.exposure
        if (costs := drafting.knowledge.costs) is not None:
            costs.observe(outcome.num_rows, forward_ms, drafting.present.mean_context)
        is_ahead = outcome.num_ahead_rows > 0
        exposure.observe(own_ms - forward_ms, drafting.took_ms, is_ahead=is_ahead)
        drafting.present.lost_ms = exposure.overhead.lost_ms

    def _learn_stretch(self, plan: StepPlan, outcome: StepOutcome) -> None:
        """By what passes cost, since what this one took varies by more."""
        drafting, exposure = self._drafting, self._waves.exposure
        if (known := drafting.knowledge.costs) is None or not outcome.num_rows:
            return
        costs = known.at(drafting.present.mean_context)
        num_nodes = sum(len(work.tree) for work in plan.work)
        plain_ms = costs.ms(max(outcome.num_rows - num_nodes, 1))
        added_ms = costs.ms(outcome.num_rows) - plain_ms
        added_ms += exposure.drafting.value * drafting.took_ms
        exposure.stretch.add(1.0 + added_ms / (plain_ms + exposure.overhead.plain_ms))

    def _pass_ms(self, num_requests: float) -> float:
        """What a pass takes in which so many requests decode; 0 if nothing was measured."""
        costs = self._drafting.knowledge.costs
        if costs is None:
            return 0.0
        num_rows = math.ceil(num_requests * self._books.pace.rows_per_decode)
        return costs.at(self._drafting.present.mean_context).ms(num_rows)


def _parts(outcome: StepOutcome, propose_ms: float, wall_ms: float) -> StepParts:
    """What a step took, without the time that it waited for another wave's."""
    waited_ms = outcome.queue_ns / 1e6
    pass_ms = (outcome.forward_ns - outcome.ahead_ns) / 1e6
    held_ms = max(outcome.total_ns / 1e6 - waited_ms, pass_ms)
    return StepParts(pass_ms, held_ms - pass_ms, wall_ms - waited_ms - held_ms, propose_ms)
