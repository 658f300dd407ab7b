"""When a service that ended may start again."""

from __future__ import annotations

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
_MAX_ENDS = 5
_WINDOW_S = 120.0


class RestartBudget:
    """Doubles the pause with each end; gives up after several in a short time unless ``endless``.

    Times are seconds of one steady clock, given by the caller.
    """

    def __init__(self, endless: bool) -> None:
        self._endless = endless
        self._ends: list[float] = []

    def pause_after_end(self, now: float) -> float | None:
        """Seconds to wait before the next start; None means to give up."""
        self._ends = [end for end in self._ends if now - end < _WINDOW_S] + [now]
        if len(self._ends) > _MAX_ENDS and not self._endless:
            return None
        return min(FIRST_PAUSE_S * 2.0 ** (len(self._ends) - 1), LONGEST_PAUSE_S)
