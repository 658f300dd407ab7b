"""What the steps of this verifier were like, counted since its start."""

from __future__ import annotations

from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution
from dspark.step import StepOutcome
from dspark.work_counts import WorkCounts


class StepBooks:
    """``observe`` is called once a step; everything else reads."""

    def __init__(self) -> None:
        self.queue_s = Distribution(buckets.STEP_SECONDS)
        self.step_s = Distribution(buckets.STEP_SECONDS)
        self.forward_s = Distribution(buckets.STEP_SECONDS)
        self.num_rows = Distribution(buckets.ROWS)
        self.num_requests = Distribution(buckets.REQUESTS)
        self.results = WorkCounts()
        self.num_committed_tokens = 0
        self.num_accepted_nodes = 0
        self.num_forced_nodes = 0
        self.num_accepted_forced = 0
        # steps that failed by a bug or a broken device
        self.num_failures = 0

    def observe(self, outcome: StepOutcome, queue_ns: int, step_ns: int) -> None:
        """Count one step that waited ``queue_ns`` for the engine and took ``step_ns`` on it."""
        self.queue_s.observe(queue_ns / 1e9)
        self.step_s.observe(step_ns / 1e9)
        if not outcome.results:
            return
        if outcome.num_rows:
            self.forward_s.observe(outcome.forward_ns / 1e9)
            self.num_rows.observe(outcome.num_rows)
        self.num_requests.observe(len(outcome.results))
        self.results.add(outcome.results)
        for result in outcome.results:
            self.num_committed_tokens += len(result.committed_token_ids)
            self.num_accepted_nodes += len(result.accepted_nodes)
            self.num_forced_nodes += result.num_forced_nodes
            self.num_accepted_forced += result.num_accepted_forced
