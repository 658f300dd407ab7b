"""How fast one verifier is, by its own measured costs and its last steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dspark.scheduler.stats import MovingAverage
from dspark.scheduler.step_timing import StepTiming
from dspark.step import StepOutcome, StepPlan

FIRST_MS = 1.0


@dataclass(frozen=True, slots=True)
class Speed:
    """What steps of one verifier take, as of now.

    ``pass_ms`` is the time of a forward pass by rows, ``overhead_ms`` what a step takes beside it.
    A decoding request has ``rows_per_decode`` rows in a step and gets ``tokens_per_step`` tokens of
    it. A step that computes prompts has ``max_rows`` rows. In ``num_waves`` as many steps take
    turns, each with its share of the requests.
    """

    pass_ms: Callable[[int], float]
    max_rows: int
    overhead_ms: float = 0.0
    rows_per_decode: float = 1.0
    tokens_per_step: float = 1.0
    num_waves: int = 1

    def token_ms(self, num_decoding: int) -> float:
        """Time in which each of so many decoding requests gets a token."""
        if num_decoding <= 0:
            return 0.0
        num_waves = min(self.num_waves, num_decoding)
        rows = math.ceil(num_decoding * self.rows_per_decode / num_waves)
        return num_waves * (self.pass_ms(rows) + self.overhead_ms) / self.tokens_per_step

    @property
    def row_ms(self) -> float:
        """Time that one prompt token takes, in steps full of them."""
        return (self.pass_ms(self.max_rows) + self.overhead_ms) / self.max_rows


def decodes_all(plan: StepPlan, outcome: StepOutcome) -> bool:
    """Whether all that a step did was to decode, each of its requests."""
    has_committed = all(result.committed_token_ids for result in outcome.results)
    return has_committed and not any(entry.max_pending_rows > 1 for entry in plan.work)


class Pace:
    """Averages over the last steps; ``observe`` is called once a step."""

    def __init__(self) -> None:
        self._overhead = MovingAverage(0.0)
        self._rows = MovingAverage(1.0)
        self._tokens = MovingAverage(1.0)
        # for verifiers that have measured nothing
        self._forward: MovingAverage | None = None

    def observe(self, timing: StepTiming, plan: StepPlan, outcome: StepOutcome) -> None:
        """Take in a step with work; only one that decodes all of it tells of rows and tokens."""
        self._overhead.add(timing.overhead_ms)
        if self._forward is None:
            self._forward = MovingAverage(timing.forward_ms)
        self._forward.add(timing.forward_ms)
        if not decodes_all(plan, outcome):
            return
        num_tokens = sum(len(result.committed_token_ids) for result in outcome.results)
        self._rows.add(max(outcome.num_rows / len(plan.work), 1.0))
        self._tokens.add(num_tokens / len(plan.work))

    @property
    def rows_per_decode(self) -> float:
        return self._rows.value

    def speed(
        self, max_rows: int, pass_ms: Callable[[int], float] | None, num_waves: int = 1
    ) -> Speed:
        """``pass_ms`` is None where no cost was measured: all passes then take what they took."""
        typical_ms = FIRST_MS if self._forward is None else self._forward.value
        return Speed(
            pass_ms or (lambda rows: typical_ms),
            max_rows,
            self._overhead.value,
            self._rows.value,
            self._tokens.value,
            num_waves,
        )
