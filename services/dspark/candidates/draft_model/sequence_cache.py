"""What a draft model has computed of one sequence: KV of committed tokens and of the last tree.

A tree's KV is kept until the next tokens are committed; what lies on their path moves over, and the
rest is dropped. So the cache is always as long as a beginning of the committed text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

LayerColumns: TypeAlias = tuple[Tensor, Tensor] | None
"""Keys and values [heads, num_columns, head_dim] of a layer; None for one that has none."""

_MIN_ROOM = 64


class LayerStates:
    """Keys and values of one layer, [heads, length, head_dim] each, with room to grow."""

    def __init__(self) -> None:
        self.length = 0
        self._rooms: list[Tensor] = []

    def states(self, part: int) -> Tensor:
        """Keys are part 0, values part 1."""
        return self._rooms[part][:, : self.length]

    def crop(self, length: int) -> None:
        self.length = min(self.length, length)

    def append(self, columns: tuple[Tensor, Tensor]) -> None:
        end = self.length + columns[0].shape[1]
        self._rooms = [self._grown(part, states, end) for part, states in enumerate(columns)]
        for room, states in zip(self._rooms, columns, strict=True):
            room[:, self.length : end] = states
        self.length = end

    def _grown(self, part: int, states: Tensor, needed: int) -> Tensor:
        if self._rooms and self._rooms[part].shape[1] >= needed:
            return self._rooms[part]
        heads, _, size = states.shape
        room = states.new_zeros((heads, max(_MIN_ROOM, 2 * needed), size))
        if self._rooms:
            room[:, : self.length] = self.states(part)
        return room


class SequenceCache:
    """The committed tokens from ``start`` on, as far as they are computed."""

    def __init__(self, num_layers: int, start: int = 0) -> None:
        self.start = start
        self.num_tokens = 0
        self.layers = [LayerStates() for _ in range(num_layers)]
        # The computed nodes of the last tree: (parent's entry, token) to (entry, column).
        self._tree: dict[tuple[int, int], tuple[int, int]] = {}
        self._columns: list[LayerColumns] = []

    @property
    def end(self) -> int:
        """Tokens of the sequence before this position are computed, or before ``start``."""
        return self.start + self.num_tokens

    @property
    def num_columns(self) -> int:
        """Tokens that memory is held for, those of the tree among them."""
        return self.num_tokens + len(self._tree)

    def append(self, columns: Sequence[LayerColumns], count: int) -> None:
        """``count`` committed tokens were computed."""
        for layer, states in zip(self.layers, columns, strict=True):
            if states is not None:
                layer.append(states)
        self.num_tokens += count

    def keep_tree(
        self, columns: Sequence[LayerColumns], places: Mapping[tuple[int, int], tuple[int, int]]
    ) -> None:
        """Keep the computed nodes of a tree on the last token.

        ``places`` maps (parent's entry, token) to (the node's entry, its column).
        """
        self._tree, self._columns = dict(places), list(columns)

    def commit(self, token_ids: Sequence[int]) -> None:
        """The sequence is ``token_ids`` now: move over what the tree had of it, forget the rest.

        The last token stays to be computed, as its successors are asked for.
        """
        self._crop(len(token_ids) - 1 - self.start)
        entry, path = 0, []
        for token_id in token_ids[self.end : len(token_ids) - 1]:
            found = self._tree.get((entry, token_id))
            if found is None:
                break
            entry, column = found
            path.append(column)
        if path:
            self.append([_picked(layer, path) for layer in self._columns], len(path))
        self._tree, self._columns = {}, []

    def _crop(self, num_tokens: int) -> None:
        if num_tokens < self.num_tokens:
            self.num_tokens = max(0, num_tokens)
            self._tree = {}
            for layer in self.layers:
                layer.crop(self.num_tokens)


def _picked(columns: LayerColumns, path: Sequence[int]) -> LayerColumns:
    if columns is None:
        return None
    chosen = torch.tensor(path, dtype=torch.int64, device=columns[0].device)
    return columns[0].index_select(1, chosen), columns[1].index_select(1, chosen)
