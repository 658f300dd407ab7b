"""What a step takes beside its forward pass, on average, as the prices of candidates need it."""

from __future__ import annotations

from dspark.scheduler.stats import MovingAverage

FIRST_OVERHEAD_MS = 2.0


class StepOverhead:
    """Averages in milliseconds, with what drafting took left out.

    A step that was computed ahead spends its overhead while the model runs. One with a tree cannot
    be, so wherever plain steps are, asking for candidates costs that as well.
    """

    def __init__(self) -> None:
        self._waiting = MovingAverage(FIRST_OVERHEAD_MS)
        self._ahead: MovingAverage | None = None

    def observe(self, beside_forward_ms: float, *, is_ahead: bool) -> None:
        """Take in a step's wall time less its whole forward pass and less drafting."""
        sample = max(beside_forward_ms, 0.0)
        if not is_ahead:
            self._waiting.add(sample)
        elif self._ahead is None:
            self._ahead = MovingAverage(sample)
        else:
            self._ahead.add(sample)

    @property
    def plain_ms(self) -> float:
        """Of a step that asks nobody."""
        return (self._ahead or self._waiting).value

    @property
    def lost_ms(self) -> float:
        """How much more a step takes because it could not be computed ahead."""
        return max(self._waiting.value - self.plain_ms, 0.0)
