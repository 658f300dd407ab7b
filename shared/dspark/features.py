"""Hidden states of the target that candidates asked for, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

FINAL_LAYER = 0
"""The layer number of the last hidden state after the final norm: what the LM head reads. Layer i
from 1 on means what decoder layer i leaves, before any norm."""


@dataclass(frozen=True, slots=True)
class Features:
    """Hidden states of consecutive tokens of one sequence.

    ``data`` is bfloat16 [num_tokens, num_layers, hidden_size], little-endian and row-major; its
    first token is at ``first_position`` of the sequence.
    """

    first_position: int
    shape: tuple[int, int, int]
    data: bytes

    def __post_init__(self) -> None:
        """Raises ValueError if the data is not of this shape."""
        num_tokens, num_layers, hidden_size = self.shape
        if len(self.data) != 2 * num_tokens * num_layers * hidden_size:
            raise ValueError(f"{len(self.data)} bytes are not bfloat16 {self.shape}")

    @property
    def end(self) -> int:
        """The position after the last token's."""
        return self.first_position + self.shape[0]

    def last(self, num_tokens: int) -> Features:
        """Those of the last tokens, at most ``num_tokens``, which is at least 1."""
        cut = max(0, self.shape[0] - num_tokens)
        size = len(self.data) // self.shape[0] if cut else 0
        shape = (self.shape[0] - cut, *self.shape[1:])
        return Features(self.first_position + cut, shape, self.data[cut * size :])

    def then(self, later: Features) -> Features:
        """These and ``later`` as one where it goes on from these; ``later`` alone where not."""
        if later.first_position != self.end or later.shape[1:] != self.shape[1:]:
            return later
        shape = (self.shape[0] + later.shape[0], *self.shape[1:])
        return Features(self.first_position, shape, self.data + later.data)
