"""What a live sequence's blocks see: keys and values of its latest tokens."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.candidates.sources.block.attention import KeyValues
from dspark.candidates.sources.block.network import BlockSizes

Features = NDArray[np.uint16]


class ContextWindow:
    """A ring: a token's place in it is its position modulo the window.

    ``keys`` and ``values`` float32 [num_layers, window, num_kv_heads, head_size]; ``positions``
    int64 [window], -1 where there is nothing; ``latest`` [hidden_size] is the fused state of the
    last token. A ring may have gaps: it says of each place which token is there.
    """

    def __init__(self, sizes: BlockSizes, device: torch.device) -> None:
        shape = sizes.num_layers, sizes.window, sizes.num_kv_heads, sizes.head_size
        self.keys = torch.zeros(shape, device=device)
        self.values = torch.zeros(shape, device=device)
        self.positions = torch.full((sizes.window,), -1, device=device)
        self.latest = torch.zeros(sizes.hidden_size, device=device)
        self.end = 0
        """The position after the last token whose features came."""
        self._size = sizes.window
        self._waiting: list[tuple[int, Features]] = []

    def add(self, first_position: int, features: Features) -> None:
        """Keep [num_tokens, num_features, hidden_size] of consecutive tokens until they are asked
        for; those that came before are passed over.
        """
        first = max(self.end, first_position, first_position + len(features) - self._size)
        new = features[first - first_position :]
        if len(new):
            self._waiting.append((first, new))
            self.end = first + len(new)
            while self._waiting[0][0] + len(self._waiting[0][1]) <= self.end - self._size:
                self._waiting.pop(0)

    def take_waiting(self) -> list[tuple[int, Features]]:
        """By first position, the features of which there are no keys and values yet."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def put(self, positions: torch.Tensor, layers: list[KeyValues], fused: torch.Tensor) -> None:
        """``positions`` [num_tokens] rise; ``layers`` [num_tokens, num_kv_heads, head_size] each;
        ``fused`` [num_tokens, hidden_size].
        """
        kept = slice(max(0, len(positions) - self._size), None)
        places = positions[kept] % self._size
        self.positions[places] = positions[kept]
        for layer, key_values in enumerate(layers):
            self.keys[layer, places] = key_values.keys[kept]
            self.values[layer, places] = key_values.values[kept]
        self.latest = fused[-1]
