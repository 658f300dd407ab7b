"""A pass that a simulated verifier runs before its step comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AheadPass:
    """One row for each of some sequences; times in seconds of virtual time."""

    request_ids: frozenset[str]
    began_at: float
    forward_s: float

    @property
    def ends_at(self) -> float:
        return self.began_at + self.forward_s

    def used_by(self, plain: Mapping[str, int]) -> list[int]:
        """Places, in a step, of the plain rows that this pass has.

        ``plain`` has the place of each sequence with one row and no tree. A sequence that is new
        under a known id is not told apart: its prompt has more rows than one.
        """
        return [place for request_id, place in plain.items() if request_id in self.request_ids]
