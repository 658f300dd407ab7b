"""How far predicted acceptance is from what happens: the expected calibration error, running."""

from __future__ import annotations

NUM_BINS = 10
# Each new try fades the old ones by this much: the estimate is over the last few thousand.
DECAY = 0.9995
_RESCALE_AT = 1e12


class CalibrationError:
    """Mean over predictions of |predicted - observed| in bins of equal width.

    Instead of fading every bin with each try, the weight of tries grows; only ratios matter.
    """

    def __init__(self) -> None:
        self._weight = 1.0
        self._tries = [0.0] * NUM_BINS
        # what was predicted less what was accepted
        self._excess = [0.0] * NUM_BINS

    def add(self, predicted: float, accepted: bool) -> None:
        """One try: a node was ``predicted`` to be accepted with this probability."""
        self._weight /= DECAY
        bin_index = min(int(predicted * NUM_BINS), NUM_BINS - 1)
        self._tries[bin_index] += self._weight
        self._excess[bin_index] += self._weight * (predicted - accepted)
        if self._weight > _RESCALE_AT:
            self._rescale()

    @property
    def value(self) -> float:
        """From 0, perfect, to 1; 0 before anything was tried."""
        tries = sum(self._tries)
        return sum(map(abs, self._excess)) / tries if tries else 0.0

    def _rescale(self) -> None:
        self._tries = [tries / self._weight for tries in self._tries]
        self._excess = [excess / self._weight for excess in self._excess]
        self._weight = 1.0
