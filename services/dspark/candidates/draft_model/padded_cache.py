"""The KV cache of one round: the prefixes of several sequences side by side, then their trees.

Columns 0 to ``num_prefix_columns - 1`` hold the prefixes, each from column 0 on and padded at its
end; each pass appends a column for every query. Which column a query sees, the mask says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from dspark.candidates.draft_model.sequence_cache import LayerColumns, LayerStates


class PaddedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values [batch, heads, columns, head_dim], written in place."""

    def __init__(self, prefixes: Sequence[LayerStates | None], num_columns: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._prefixes = prefixes
        self._num_columns = num_columns
        self._rooms: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the queries' states; returns all columns up to them."""
        given = (key_states, value_states)
        first = self.get_seq_length()
        if self._rooms is None:
            self.lazy_initialization(key_states, value_states)
            self._rooms = self._room(key_states, 0), self._room(value_states, 1)
            first = max((prefix.length for prefix in self._prefixes if prefix), default=0)
        end = first + key_states.shape[-2]
        for room, states in zip(self._rooms, given, strict=True):
            room[:, :, first:end] = states
        self.keys, self.values = (room[:, :, :end] for room in self._rooms)
        return self.keys, self.values

    def columns(self, row: int, columns: Sequence[int]) -> LayerColumns:
        """Copies of some columns of one sequence; None if the model never wrote to this layer."""
        if self._rooms is None:
            return None
        keys, values = self._rooms
        chosen = torch.tensor(columns, dtype=torch.int64, device=keys.device)
        return keys[row].index_select(1, chosen), values[row].index_select(1, chosen)

    def _room(self, states: Tensor, part: int) -> Tensor:
        batch, heads, _, size = states.shape
        room = states.new_zeros((batch, heads, self._num_columns, size))
        for row, prefix in enumerate(self._prefixes):
            if prefix is not None:
                room[row, :, : prefix.length] = prefix.states(part)
        return room


class PaddedCache(Cache):
    """``prefixes`` has the layers of each sequence, None for one of which nothing is cached."""

    def __init__(
        self, prefixes: Sequence[Sequence[LayerStates] | None], num_layers: int, num_columns: int
    ) -> None:
        self._padded = [
            PaddedLayer(
                [None if prefix is None else prefix[index] for prefix in prefixes], num_columns
            )
            for index in range(num_layers)
        ]
        super().__init__(layers=list(self._padded))

    def columns(self, row: int, columns: Sequence[int]) -> list[LayerColumns]:
        """Keys and values [heads, len(columns), head_dim] of one sequence, layer by layer."""
        return [layer.columns(row, columns) for layer in self._padded]
