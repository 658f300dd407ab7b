"""How long a step may take before its verifier is given up for another one."""

from __future__ import annotations

# The longest pass that is known, so many times, is no reason yet to leave a verifier.
SLOW_STEP_FACTOR = 4
# What a step took is forgotten by this share with each later one.
_KEPT_SHARE = 0.99
_MAX_GROWTH = 32


class StepPatience:
    """Grows with each step that got no reply in time, until one gets it.

    Verifiers that are slow for everybody would else hand their requests to each other for ever.
    """

    def __init__(self) -> None:
        self._slowest_s = 0.0
        self._growth = 1

    def took(self, seconds: float) -> None:
        """A step was answered after so long."""
        self._slowest_s = max(seconds, self._slowest_s * _KEPT_SHARE)
        self._growth = 1

    def ran_out(self) -> None:
        """A step was not answered in time."""
        self._growth = min(self._growth * 2, _MAX_GROWTH)

    def seconds(self, least_s: float, measured_s: float) -> float:
        """For the next step: ``least_s`` and what slow steps take; ``measured_s`` is a pass."""
        return self._growth * (least_s + SLOW_STEP_FACTOR * max(measured_s, self._slowest_s))
