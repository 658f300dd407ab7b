"""Where a request is going to be done soonest, counting what it costs the others there (pure).

A verifier is described by its own measured speed, so one that is four times as slow fills up at a
quarter of the load. What is expected of a prefix cache only takes prompt tokens off the bill:
where many requests share a prefix, the wait at its verifier comes to cost more than computing the
prefix elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dspark.scheduler.pace import Speed

# Costs this close are equal, since they rest on averages; the less busy verifier then gets it.
TIE = 0.03


@dataclass(frozen=True, slots=True)
class Job:
    """What is left of a request: tokens to compute first, and those expected to be generated."""

    num_uncached: int
    num_output: float


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One verifier and all of its requests; ``num_slots`` of them can be on it at once."""

    name: str
    speed: Speed
    num_slots: int
    num_requests: int = 0
    # sums over the requests: known tokens without K/V, and expected ones
    num_uncached: int = 0
    num_output: float = 0.0

    def plus(self, job: Job) -> WorkerView:
        return self._changed(job, 1)

    def minus(self, job: Job) -> WorkerView:
        return self._changed(job, -1)

    def _changed(self, job: Job, sign: int) -> WorkerView:
        return replace(
            self,
            num_requests=max(self.num_requests + sign, 0),
            num_uncached=max(self.num_uncached + sign * job.num_uncached, 0),
            num_output=max(self.num_output + sign * job.num_output, 0.0),
        )

    @property
    def backlog_ms(self) -> float:
        """Time until all of its requests have ended, if no further ones come."""
        together = max(min(self.num_requests, self.num_slots), 1)
        decode_ms = self.num_output / together * self.speed.token_ms(together)
        return self.num_uncached * self.speed.row_ms + decode_ms


def completion_ms(view: WorkerView, job: Job) -> float:
    """Expected time until a job that comes to this verifier is done."""
    together = min(view.num_requests + 1, view.num_slots)
    token_ms = view.speed.token_ms(together)
    prefill_ms = (view.num_uncached + job.num_uncached) * view.speed.row_ms
    return _wait_ms(view, token_ms) + prefill_ms + job.num_output * token_ms


def _wait_ms(view: WorkerView, token_ms: float) -> float:
    """Time until a place is free: of those that run, one ends after the other."""
    num_ahead = view.num_requests + 1 - view.num_slots
    if num_ahead <= 0:
        return 0.0
    mean_output = view.num_output / view.num_requests
    return num_ahead * mean_output * token_ms / view.num_slots


def delay_ms(view: WorkerView, job: Job) -> float:
    """How much later the verifier's requests end, all together, because the job comes to it."""
    before = min(view.num_requests, view.num_slots)
    after = min(view.num_requests + 1, view.num_slots)
    slower_ms = view.speed.token_ms(after) - view.speed.token_ms(before)
    prefill_ms = view.num_requests * job.num_uncached * view.speed.row_ms
    return prefill_ms + max(slower_ms, 0.0) * view.num_output * (before > 0)


def cost_ms(view: WorkerView, job: Job) -> float:
    """What placing the job here adds to the sum of all completion times."""
    return completion_ms(view, job) + delay_ms(view, job)


def place(options: Sequence[tuple[WorkerView, Job]]) -> WorkerView:
    """The verifier for a request that is ``Job`` at each; ValueError without options."""
    costs = [cost_ms(view, job) for view, job in options]
    limit = min(costs) * (1 + TIE)
    close = [view for (view, _), cost in zip(options, costs, strict=True) if cost <= limit]
    return min(close, key=lambda view: view.backlog_ms)
