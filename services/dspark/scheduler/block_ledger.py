"""Free KV blocks of a verifier whose waves plan steps while others are under way."""

from __future__ import annotations

import itertools


class BlockLedger:
    """What a step may spend is what the verifier reported last, less what other waves hold.

    A wave holds the blocks that its trees may take, from planning a step until its outcome is
    there. What requests need for tokens that they know is not held here: every plan counts it.
    """

    def __init__(self, num_blocks: int) -> None:
        self.reported = num_blocks
        self._held: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._reported_by = 0

    def free_for(self, wave: int) -> int:
        """Blocks that a plan of this wave may spend."""
        others = sum(held for holder, held in self._held.items() if holder != wave)
        return max(self.reported - others, 0)

    def hold(self, wave: int, num_blocks: int) -> None:
        """In place of what the wave held before."""
        self._held[wave] = num_blocks

    def sent(self, wave: int) -> None:
        """The wave's step is on its way; the verifier takes steps as they come."""
        self._sent[wave] = next(self._numbers)

    def drop(self, wave: int) -> None:
        """The wave's step has no outcome, or never was sent."""
        self._held.pop(wave, None)

    def settle(self, wave: int, num_free_blocks: int) -> None:
        """The wave's step has an outcome. One that comes after that of a later step is old news."""
        self.drop(wave)
        number = self._sent.get(wave, 0)
        if number >= self._reported_by:
            self.reported, self._reported_by = num_free_blocks, number
