"""What the steps of one verifier were like, counted since the scheduler's start."""

from __future__ import annotations

from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution
from dspark.scheduler.pace import Pace
from dspark.scheduler.step_timing import StepTiming
from dspark.step import StepOutcome, StepPlan
from dspark.work_counts import WorkCounts


class StepBooks:
    """``observe`` is called once a step; everything else reads."""

    def __init__(self, iteration_tokens: Distribution | None = None) -> None:
        """``iteration_tokens`` gets the tokens of each step; several verifiers may share it."""
        self.propose_s = Distribution(buckets.STEP_SECONDS)
        self.verify_s = Distribution(buckets.STEP_SECONDS)
        self.forward_s = Distribution(buckets.STEP_SECONDS)
        self.ahead_s = Distribution(buckets.STEP_SECONDS)
        self.overhead_s = Distribution(buckets.STEP_SECONDS)
        self.num_requests = Distribution(buckets.REQUESTS)
        self.num_rows = Distribution(buckets.ROWS)
        self.tree_nodes = Distribution(buckets.TREE_NODES)
        # prompt rows that were computed and tokens that were committed, together
        self.num_tokens = iteration_tokens or Distribution(buckets.ITERATION_TOKENS)
        self.num_steps = 0
        self.results = WorkCounts()
        # steps that the verifier refused or that could not be applied
        self.num_failures = 0
        # times that this verifier was given up
        self.num_losses = 0
        self.pace = Pace()

    def observe(self, timing: StepTiming, plan: StepPlan, outcome: StepOutcome) -> None:
        """Count one finished step."""
        self.num_steps += 1
        self.overhead_s.observe(timing.overhead_ms / 1e3)
        if not plan.work:
            return
        self.propose_s.observe(timing.propose_ms / 1e3)
        self.verify_s.observe(timing.verify_ms / 1e3)
        self.forward_s.observe(timing.forward_ms / 1e3)
        self.ahead_s.observe(timing.ahead_ms / 1e3)
        self.pace.observe(timing, plan, outcome)
        self.num_requests.observe(len(plan.work))
        self.num_rows.observe(outcome.num_rows)
        self.results.add(outcome.results)
        num_tokens = sum(len(result.committed_token_ids) for result in outcome.results)
        for entry in plan.work:
            if entry.max_pending_rows > 1:
                num_tokens += entry.max_pending_rows
            if num_nodes := len(entry.tree.token_ids):
                self.tree_nodes.observe(num_nodes)
        self.num_tokens.observe(num_tokens)
