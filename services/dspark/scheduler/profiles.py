"""What recent proposals offered, as the survivals that the scheduler gives their nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

# Recent proposals remembered of a request, and of all of them for requests that are new.
NUM_PROFILES = 8
# Before anything was proposed, hope for nodes that are right this often.
FIRST_SCORE = 0.7

Profile: TypeAlias = tuple[float, ...]
"""Calibrated survivals of the nodes of one proposal, best first."""


class Profiles:
    """The latest profiles, oldest first."""

    def __init__(self, start: Sequence[Profile]) -> None:
        self._profiles: deque[Profile] = deque(start, maxlen=NUM_PROFILES)

    @classmethod
    def hopeful(cls, max_nodes: int) -> Profiles:
        """Before there are any."""
        return cls([tuple(FIRST_SCORE**depth for depth in range(1, max_nodes + 1))])

    def remember(self, survivals: Sequence[float]) -> Profile:
        """A proposal with such nodes came; an empty one counts as well."""
        profile = tuple(sorted(survivals, reverse=True))
        self._profiles.append(profile)
        return profile

    def add(self, profile: Profile) -> None:
        self._profiles.append(profile)

    def latest(self) -> tuple[Profile, ...]:
        return tuple(self._profiles)
