"""The waves of one verifier: its running requests in two halves, whose steps take turns.

While the step of one wave is in the verifier, the other drafts and plans. The waves share all there
is of the verifier: its queue, its requests, its blocks. A sequence on the verifier belongs to
nobody, so a request goes to the other wave by a mark on it, between two steps of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dspark.scheduler.block_ledger import BlockLedger
from dspark.scheduler.live_requests import LiveRequests
from dspark.scheduler.request import Request
from dspark.scheduler.source_values import SourceValues
from dspark.scheduler.stats import MovingAverage
from dspark.scheduler.step_overhead import StepOverhead
from dspark.scheduler.wave_choice import FixedWaves, WaveChoice, WaveStep

# Steps from one look at the number of waves to the next.
CHOICE_INTERVAL = 16
# A wave with so many requests more than the other gives half of them away.
MIN_SURPLUS = 2


@dataclass(slots=True)
class Exposure:
    """What steps take beside their passes, where there are so many waves."""

    # whether passes of other waves may cover what a step takes beside its own
    may_hide: bool
    overhead: StepOverhead = field(default_factory=StepOverhead)
    # share of the time of drafting that no pass of another wave covers; none, before it is seen
    drafting: MovingAverage = field(init=False)
    # how many times as long steps take for their drafts
    stretch: MovingAverage = field(default_factory=lambda: MovingAverage(1.0))
    # a source that is not worth its time may be, where it is covered
    values: SourceValues = field(default_factory=SourceValues)

    def __post_init__(self) -> None:
        self.drafting = MovingAverage(0.0 if self.may_hide else 1.0)

    def observe(self, beside_ms: float, drafting_ms: float, *, is_ahead: bool) -> None:
        """Take in what a step took beside its pass, and what drafting took before it."""
        exposed_ms = min(drafting_ms, max(beside_ms, 0.0)) if self.may_hide else drafting_ms
        if drafting_ms and self.may_hide:
            self.drafting.add(exposed_ms / drafting_ms)
        self.overhead.observe(beside_ms - exposed_ms, is_ahead=is_ahead)


class Waves:
    """How many waves there are, and what they share. Without a choice there is one."""

    def __init__(
        self, live: LiveRequests, num_blocks: int, choice: WaveChoice | None = None
    ) -> None:
        self.live = live
        self.blocks = BlockLedger(num_blocks)
        self.count = 1
        self._choice = choice or FixedWaves(1)
        self.members = tuple(Wave(self, index) for index in range(self._choice.most))
        self._exposures = [Exposure(may_hide=index > 0) for index in range(self._choice.most)]
        self._finished_at = 0.0
        self._num_steps = 0

    @property
    def exposure(self) -> Exposure:
        """With the present number of waves."""
        return self._exposures[self.count - 1]

    def wake(self) -> None:
        for wave in self.members:
            wave.wake()

    def finished(self, started: float, now: float) -> float:
        """A step that began at ``started`` is over; returns its own milliseconds.

        Those are the ones in which no other step was the last to finish, so that the times of all
        steps add up to the time that passes.
        """
        own_s = now - max(started, self._finished_at)
        self._finished_at = now
        return own_s * 1e3

    def choose(self, step: WaveStep, pass_ms: Callable[[float], float]) -> None:
        """Take in a step and now and then see how many waves are best.

        ``pass_ms`` is a pass's time by requests.
        """
        self._choice.observe(self.count, len(self.live.running), step)
        self._num_steps += 1
        if self._num_steps % CHOICE_INTERVAL:
            return
        before, num_running = self.count, len(self.live.running)
        self.count = self._choice.count(before, num_running, pass_ms)
        if self.count > before:
            # What was seen of it at another time or load would keep it from being tried well.
            self._exposures[self.count - 1] = Exposure(may_hide=True)


class Wave:
    """One wave, for the loop that steps it."""

    def __init__(self, waves: Waves, index: int) -> None:
        self.index = index
        self.waves = waves
        self.wake: Callable[[], None] = lambda: None

    @property
    def running(self) -> list[Request]:
        """Its own running requests."""
        return [request for request in self.waves.live.running if request.wave == self.index]

    @property
    def is_alone(self) -> bool:
        """Whether no other wave may step meanwhile."""
        waves = self.waves
        others = any(request.wave != self.index for request in waves.live.running)
        return waves.count == 1 and not others

    @property
    def has_work(self) -> bool:
        """Whether to step: what waits, or is to be released, joins any wave that steps."""
        live = self.waves.live
        if live.running:
            return any(request.wave == self.index for request in live.running)
        return self.index == 0 and bool(live.waiting or live.releases)

    def turn(self) -> None:
        """Between two steps: those that leave the verifier go, and some may go to another wave."""
        waves = self.waves
        waves.live.let_go(lambda request: request.wave == self.index or not request.is_running)
        own = self.running
        for other in waves.members[: waves.count]:
            if other is not self and (moved := self._surplus(own, len(other.running))):
                for request in moved:
                    request.wave = other.index
                other.wake()

    def rest(self) -> None:
        """It has nothing to do: what waits is for the first wave."""
        if self.index:
            self.waves.members[0].wake()

    def _surplus(self, own: list[Request], num_others: int) -> list[Request]:
        """Those that came last; all, where this wave is one too many."""
        if self.index >= self.waves.count:
            return own
        num_more = len(own) - num_others
        return own[len(own) - num_more // 2 :] if num_more >= MIN_SURPLUS else []
