"""What drafting remembers of each live request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dspark.scheduler.outcomes import OpenOutcomes, Outcome
from dspark.scheduler.profiles import Profiles
from dspark.scheduler.request import Request
from dspark.scheduler.source_mutes import SourceMutes
from dspark.scheduler.temperature_bin import temperature_bin


@dataclass(slots=True)
class DraftState:
    """One request: whom it does not ask for now, and what came of what it was offered."""

    mutes: SourceMutes
    profiles: Profiles
    # the step in which it asked last, or joined
    asked_at: int
    temperature_bin: int
    outcomes: OpenOutcomes


class DraftStates:
    """The states, made when they are first needed.

    A new request hopes for what those got whose tokens are drawn about as freely. Steps are counted
    alike in all waves of a verifier, since a request may change its wave.
    """

    def __init__(self, mute_after: int, mute_steps: int, max_nodes: int) -> None:
        self._mute_after = mute_after
        self._mute_steps = mute_steps
        self._states: dict[Request, DraftState] = {}
        # by how freely tokens are drawn
        self._latest = defaultdict[int, Profiles](partial(Profiles.hopeful, max_nodes))
        self._step = 0

    def __len__(self) -> int:
        return len(self._states)

    def next_step(self, present: int) -> int:
        """What follows a wave's ``present`` step: one more, or the step of a wave that is ahead."""
        self._step = max(self._step, present + 1)
        return self._step

    def of(self, request: Request, step: int) -> DraftState:
        """Its state; ``step`` is the present one."""
        if request not in self._states:
            mutes = SourceMutes(self._mute_after, self._mute_steps)
            heat = temperature_bin(request.spec.sampling)
            profiles = Profiles(self._latest[heat].latest())
            self._states[request] = DraftState(mutes, profiles, step, heat, OpenOutcomes(heat))
        return self._states[request]

    def remember(self, state: DraftState, survivals: Sequence[float]) -> None:
        """It asked, and this is what it was offered."""
        self._latest[state.temperature_bin].add(state.profiles.remember(survivals))

    def follow(self, request: Request, token_ids: tuple[int, ...]) -> list[Outcome]:
        """It committed these tokens; returns the outcomes that are over by that."""
        state = self._states.get(request)
        return [] if state is None else state.outcomes.follow(token_ids)

    def forget(self, request: Request) -> list[Outcome]:
        """It ended; returns the outcomes that it leaves."""
        state = self._states.pop(request, None)
        return [] if state is None else state.outcomes.close()
