"""The trees of a pass as flat arrays: which rows are candidates, and whose children they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dspark.sampling import SamplingParams
from dspark.verifier.pruning.cut import Rows
from dspark.verifier.pruning.node_priors import NUM_PRIORS, priors_of
from dspark.verifier.scheduled_work import ScheduledWork


@dataclass(frozen=True, slots=True)
class Parent:
    """A row with children: what it predicts is the token at ``position``."""

    row: int
    position: int
    sampling: SamplingParams


@dataclass(frozen=True, slots=True)
class Forest:
    """All nodes of a pass, in the order of its rows; arrays have one entry a node, unless said."""

    num_rows: int
    parents: tuple[Parent, ...]
    # where the node's row is in the pass
    rows: Rows
    token_ids: NDArray[np.int64]
    # index into ``parents``
    parent_places: NDArray[np.int64]
    # index of the node that is the parent; -1 for a child of an anchor
    parent_nodes: NDArray[np.int64]
    # [num_nodes, NUM_PRIORS] see node_priors
    priors: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)

    def closed(self, hopeless: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """[num_nodes] which nodes stay: those that neither are hopeless nor descend from such."""
        stays = ~hopeless
        for node, parent in enumerate(self.parent_nodes.tolist()):
            if parent >= 0 and not stays[parent]:
                stays[node] = False
        return stays

    def rows_without(self, stays: NDArray[np.bool_]) -> Rows:
        """The pass's rows but for those of nodes that do not stay."""
        return np.delete(np.arange(self.num_rows, dtype=np.int64), self.rows[~stays])


def forest_of(entries: Sequence[ScheduledWork]) -> Forest:
    """The trees of the entries, whose rows follow each other in a pass."""
    parents: list[Parent] = []
    rows: list[int] = []
    parent_places: list[int] = []
    parent_nodes: list[int] = []
    for entry, first_row, first_node in _with_trees(entries):
        anchor_row = first_row + entry.end - entry.start - 1
        known = {parent: len(parents) + i for i, parent in enumerate(sorted({*entry.tree.parents}))}
        depths = (0, *entry.tree.depths)
        sampling = entry.sequence.sampling
        parents += [Parent(anchor_row + p, entry.end + depths[p], sampling) for p in known]
        rows += range(anchor_row + 1, anchor_row + 1 + len(entry.tree))
        parent_places += (known[parent] for parent in entry.tree.parents)
        parent_nodes += (first_node + p - 1 if p else -1 for p in entry.tree.parents)
    trees = [(entry.tree, entry.sequence.sampling.temperature > 0) for entry in entries]
    return Forest(
        num_rows=sum(entry.num_rows for entry in entries),
        parents=tuple(parents),
        rows=np.array(rows, dtype=np.int64),
        token_ids=np.array([t for tree, _ in trees for t in tree.token_ids], dtype=np.int64),
        parent_places=np.array(parent_places, dtype=np.int64),
        parent_nodes=np.array(parent_nodes, dtype=np.int64),
        priors=np.array([p for tree, drawn in trees for p in priors_of(tree, drawn)]).reshape(
            -1, NUM_PRIORS
        ),
    )


def _with_trees(entries: Sequence[ScheduledWork]) -> Iterator[tuple[ScheduledWork, int, int]]:
    """Each entry with a tree, its first row, and the number of nodes before its own."""
    first_row = first_node = 0
    for entry in entries:
        if len(entry.tree):
            yield entry, first_row, first_node
        first_row += entry.num_rows
        first_node += len(entry.tree)
