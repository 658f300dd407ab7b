"""One round's passes over several sequences: their new tokens, then their trees by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dspark.candidates.draft_model.causal_model import CausalModel, Floats, Ids, Mask
from dspark.candidates.draft_model.padded_cache import PaddedCache
from dspark.candidates.draft_model.sequence_cache import SequenceCache


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node to compute; entries are those of a TokenTree, the anchor's is 0."""

    entry: int
    parent: int
    token_id: int
    depth: int


@dataclass(slots=True)
class _Row:
    """One sequence of the batch."""

    cache: SequenceCache
    num_new: int = 0
    # by entry, the columns that a child of the node sees beside the committed ones
    paths: dict[int, tuple[int, ...]] = field(default_factory=lambda: {0: ()})
    nodes: list[TreeNode] = field(default_factory=list)


class DraftBatch:
    """Sequences side by side in one cache; ``finish`` hands what was computed to their own."""

    def __init__(
        self, model: CausalModel, caches: Sequence[SequenceCache], num_columns: int
    ) -> None:
        """``num_columns`` is the most that all passes together append."""
        self._model = model
        self._rows = [_Row(cache) for cache in caches]
        self._first = self._next = max(cache.num_tokens for cache in caches)
        prefixes = [cache.layers if cache.num_tokens else None for cache in caches]
        self._cache = PaddedCache(prefixes, model.num_layers, self._first + num_columns)

    def extend(self, new: Sequence[Sequence[int]]) -> Floats:
        """[batch, V'] after the last of each sequence's new tokens, at least one each."""
        longest = max(map(len, new))
        token_ids, positions, visible = self._blank(longest)
        for index, (row, tokens) in enumerate(zip(self._rows, new, strict=True)):
            row.num_new = len(tokens)
            span = np.arange(len(tokens))
            token_ids[index, : len(tokens)] = tokens
            positions[index, : len(tokens)] = row.cache.num_tokens + span
            visible[index, : len(tokens), : row.cache.num_tokens] = True
            own = visible[index, : len(tokens), self._next : self._next + len(tokens)]
            own |= span[:, None] >= span
        wanted = sorted({len(tokens) - 1 for tokens in new})
        logits = self._model.logits(token_ids, positions, visible, self._cache, wanted)
        self._next += longest
        return logits[np.arange(len(new)), [wanted.index(len(tokens) - 1) for tokens in new]]

    def descend(self, levels: Sequence[Sequence[TreeNode]]) -> list[Floats]:
        """For each sequence [nodes, V'] after its nodes; their parents are computed."""
        widest = max(map(len, levels))
        token_ids, positions, visible = self._blank(widest)
        for index, (row, nodes) in enumerate(zip(self._rows, levels, strict=True)):
            num_tokens = row.cache.num_tokens
            for query, node in enumerate(nodes):
                path = (*row.paths[node.parent], self._next + query)
                row.paths[node.entry] = path
                token_ids[index, query] = node.token_id
                positions[index, query] = num_tokens + row.num_new - 1 + node.depth
                visible[index, query, :num_tokens] = True
                visible[index, query, self._first : self._first + row.num_new] = True
                visible[index, query, list(path)] = True
            row.nodes.extend(nodes)
        logits = self._model.logits(token_ids, positions, visible, self._cache, range(widest))
        self._next += widest
        return [logits[index, : len(nodes)] for index, nodes in enumerate(levels)]

    def finish(self) -> None:
        """Hand over the new tokens' KV, and that of the trees."""
        for index, row in enumerate(self._rows):
            new = range(self._first, self._first + row.num_new)
            row.cache.append(self._cache.columns(index, new), row.num_new)
            if row.nodes:
                columns = [row.paths[node.entry][-1] for node in row.nodes]
                places = {
                    (node.parent, node.token_id): (node.entry, place)
                    for place, node in enumerate(row.nodes)
                }
                row.cache.keep_tree(self._cache.columns(index, columns), places)

    def _blank(self, queries: int) -> tuple[Ids, Ids, Mask]:
        """Padding: a query that nobody uses sees itself alone."""
        shape = (len(self._rows), queries)
        visible = np.zeros((*shape, self._next + queries), dtype=np.bool_)
        visible[:, np.arange(queries), self._next + np.arange(queries)] = True
        return np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64), visible
