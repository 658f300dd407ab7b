"""Whether a verifier's requests take turns in one wave or in two, by what their steps take.

While one wave is in the verifier the other drafts and plans. So a round of two waves takes as long
as both halves are in the verifier, or as one half is in the verifier and away from it, whichever is
longer, where one wave takes as long as the whole is in it and away from it. A half takes more than
half of the time, so two waves pay only where requests are away from the verifier for long.

Away from it they must not slow it down: where the model runs on the processors that draft and plan,
there is one wave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dspark.scheduler.batch_times import BatchTimes
from dspark.step import VerifierInfo

# Two waves must promise to save this share of a round, so that the number does not flutter.
MIN_SAVED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class StepParts:
    """What a step takes, in milliseconds.

    ``beside_ms`` is what the verifier takes beside the pass, ``away_ms`` is between its reply and
    the next step, ``propose_ms`` the part of that in which candidates are asked, one call at a
    time.
    """

    pass_ms: float
    beside_ms: float
    away_ms: float
    propose_ms: float = 0.0


def two_wave_round_ms(half: StepParts) -> float:
    """Time in which two waves, each like ``half``, do a step each (pure)."""
    held_ms = half.pass_ms + half.beside_ms
    return max(2 * held_ms, 2 * half.propose_ms, held_ms + half.away_ms)


def better_count(present: int, one_round_ms: float, two_round_ms: float) -> int:
    """The number of waves, by the time of a round in one and in two; it changes only for more than
    nothing (pure).
    """
    if present == 1:
        return 2 if two_round_ms < one_round_ms * (1 - MIN_SAVED_SHARE) else 1
    return 1 if one_round_ms < two_round_ms else 2


class WaveChoice(Protocol):
    """Decides how many waves there are."""

    @property
    def most(self) -> int:
        """Waves that there may be at all."""
        ...

    def observe(self, present: int, num_requests: int, parts: StepParts, plain_ms: float) -> None:
        """Take in a decoding step of one wave, while there were ``present``.

        ``plain_ms`` is what it added to the time of the passes.
        """

    def count(self, present: int, num_requests: int, pass_ms: Callable[[float], float]) -> int:
        """How many waves there are from now on.

        ``pass_ms`` is the time of a pass by requests that decode in it; 0 if it is not known.
        """
        ...


class FixedWaves:
    """Always the same number."""

    def __init__(self, number: int) -> None:
        self.most = number

    def observe(self, present: int, num_requests: int, parts: StepParts, plain_ms: float) -> None:
        """Nothing to learn."""

    def count(self, present: int, num_requests: int, pass_ms: Callable[[float], float]) -> int:
        return min(self.most, max(num_requests, 1))


class MeasuredWaves:
    """One or two, whichever takes less time by what steps took so far."""

    most = 2

    def __init__(self) -> None:
        self._beside, self._away = BatchTimes(), BatchTimes()
        self._propose = BatchTimes()
        # in one wave: a pass that is computed ahead hides some of the time away
        self._plain = BatchTimes()

    def observe(self, present: int, num_requests: int, parts: StepParts, plain_ms: float) -> None:
        self._beside.observe(num_requests, parts.beside_ms)
        self._away.observe(num_requests, parts.away_ms)
        self._propose.observe(num_requests, parts.propose_ms)
        if present == 1:
            self._plain.observe(num_requests, plain_ms)

    def count(self, present: int, num_requests: int, pass_ms: Callable[[float], float]) -> int:
        if num_requests < 2 or not pass_ms(num_requests):
            return 1
        half = num_requests / 2
        parts = StepParts(
            pass_ms(half), self._beside.ms(half), self._away.ms(half), self._propose.ms(half)
        )
        one_round_ms = pass_ms(num_requests) + self._plain.ms(num_requests)
        return better_count(present, one_round_ms, two_wave_round_ms(parts))


def _measured(info: VerifierInfo) -> WaveChoice:
    """One wave where the model runs on the processors, which draft and plan as well."""
    return FixedWaves(1) if info.device == "cpu" else MeasuredWaves()


WAVES: dict[str, Callable[[VerifierInfo], WaveChoice]] = {
    "1": lambda info: FixedWaves(1),
    "2": lambda info: FixedWaves(2),
    "auto": _measured,
}
