"""Whether a verifier's requests take turns in one wave or in two, by what that gives.

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
from dspark.scheduler.wave_rates import WaveRates
from dspark.step import VerifierInfo

# The other number of waves must give this share of tokens more, so that it does not flutter.
MIN_GAIN = 0.02


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


def better_count(present: int, present_rate: float, other_rate: float) -> int:
    """The number of waves by tokens a millisecond; it changes for more than a little (pure)."""
    return 3 - present if other_rate > present_rate * (1 + MIN_GAIN) else present


@dataclass(frozen=True, slots=True)
class WaveStep:
    """A step of one wave, as far as the choice learns from it.

    ``own_ms`` of all steps add up to the time that passes. ``parts`` is None of a step that did
    not decode all of its ``num_requests``; ``plain_ms`` is then what it took beside the pass.
    """

    num_requests: int
    num_tokens: int
    own_ms: float
    plain_ms: float
    parts: StepParts | None = None


class WaveChoice(Protocol):
    """Decides how many waves there are."""

    @property
    def most(self) -> int:
        """Waves that there may be at all."""
        ...

    def observe(self, present: int, num_running: int, step: WaveStep) -> None:
        """Take in a step while there were ``present`` waves with so many requests together."""

    def count(self, present: int, num_running: int, pass_ms: Callable[[float], float]) -> int:
        """How many waves there are from now on.

        ``pass_ms`` is the time of a pass by requests that decode in it; 0 if it is not known.
        """
        ...


class FixedWaves:
    """Always the same number."""

    def __init__(self, number: int) -> None:
        self.most = number

    def observe(self, present: int, num_running: int, step: WaveStep) -> None:
        """Nothing to learn."""

    def count(self, present: int, num_running: int, pass_ms: Callable[[float], float]) -> int:
        return min(self.most, max(num_running, 1))


class MeasuredWaves:
    """One or two, whichever gave more tokens a millisecond at such a load.

    Two are tried where the tables promise a shorter round. Where candidates are asked they are
    tried in any case: what drafting costs then changes, and with it how much of it pays.
    """

    most = 2

    def __init__(self) -> None:
        self._beside, self._away = BatchTimes(), BatchTimes()
        self._propose = BatchTimes()
        # in one wave: a pass that is computed ahead hides some of the time away
        self._plain = BatchTimes()
        self._rates = WaveRates()

    def observe(self, present: int, num_running: int, step: WaveStep) -> None:
        if (parts := step.parts) is None:
            # How many prompts come has nothing to do with the waves.
            return
        self._rates.observe(present, num_running, step.num_tokens, step.own_ms)
        self._beside.observe(step.num_requests, parts.beside_ms)
        self._away.observe(step.num_requests, parts.away_ms)
        self._propose.observe(step.num_requests, parts.propose_ms)
        if present == 1:
            self._plain.observe(step.num_requests, step.plain_ms)

    def count(self, present: int, num_running: int, pass_ms: Callable[[float], float]) -> int:
        if num_running < 2:
            return 1
        other = self._rates.of(3 - present, num_running)
        rate = self._rates.of(present, num_running, than=other)
        if rate is None:
            return present
        other = self._rates.of(3 - present, num_running, than=rate)
        if other is not None:
            return better_count(present, rate, other)
        return 1 if present == 2 or not self._may_pay(num_running, pass_ms) else 2

    def _may_pay(self, num_running: int, pass_ms: Callable[[float], float]) -> bool:
        half = num_running / 2
        parts = StepParts(
            pass_ms(half), self._beside.ms(half), self._away.ms(half), self._propose.ms(half)
        )
        one_round_ms = pass_ms(num_running) + self._plain.ms(num_running)
        return parts.propose_ms > 0 or two_wave_round_ms(parts) < one_round_ms


def _measured(info: VerifierInfo) -> WaveChoice:
    """One wave where the model runs on the processors, which draft and plan as well."""
    return FixedWaves(1) if info.device == "cpu" else MeasuredWaves()


WAVES: dict[str, Callable[[VerifierInfo], WaveChoice]] = {
    "1": lambda info: FixedWaves(1),
    "2": lambda info: FixedWaves(2),
    "auto": _measured,
}
