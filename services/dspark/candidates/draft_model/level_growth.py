"""Grows a token tree level by level, as the probabilities of a model come in (pure).

OPT-Tree (Wang et al. 2024, arXiv:2406.17276): of all nodes found so far those of the highest
survival make the tree, and a level's best are expanded in the next pass. Scores never exceed 1, so
survival falls along a path, and the best nodes always are a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dspark.token_tree import TokenTree

Children: TypeAlias = tuple[Sequence[int], Sequence[float]]
"""Tokens below one node, each once, and their scores."""

# Children below this probability are not worth a node anywhere.
MIN_SCORE = 0.01


@dataclass(slots=True)
class LevelGrowth:
    """The nodes found so far. Entry 0 is the anchor and entry i + 1 is node i, as in a TokenTree.

    ``width`` is the largest number of nodes that are expanded in one pass.
    """

    max_nodes: int
    max_depth: int
    width: int
    token_ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    survivals: list[float] = field(default_factory=lambda: [1.0])
    depth: int = 0
    """Of the nodes that ``frontier`` has."""
    frontier: tuple[int, ...] = (0,)
    """Entries to expand next, best first; empty when no further pass can add anything."""

    def __post_init__(self) -> None:
        if self.max_nodes < 1 or self.max_depth < 1:
            self.frontier = ()

    @property
    def possible_gain(self) -> float:
        """At most so many expected tokens come with the next level."""
        return sum(self.survivals[entry] for entry in self.frontier)

    def expand(self, children: Sequence[Children]) -> None:
        """Add the children of each entry of the frontier, in its order."""
        first = len(self.token_ids) + 1
        for entry, (token_ids, scores) in zip(self.frontier, children, strict=True):
            for token_id, score in zip(token_ids, scores, strict=True):
                if score >= MIN_SCORE:
                    self._add(entry, int(token_id), min(1.0, float(score)))
        self.depth += 1
        # What is not among the best now never will be, nor will anything below it.
        fresh = [entry for entry in self._best() if entry >= first]
        self.frontier = tuple(fresh[: self.width]) if self.depth < self.max_depth else ()

    def tree(self, source: str) -> TokenTree:
        """The ``max_nodes`` best, all from ``source``."""
        best = self._best()
        place = {entry: index + 1 for index, entry in enumerate(best)} | {0: 0}
        return TokenTree(
            token_ids=tuple(self.token_ids[entry - 1] for entry in best),
            parents=tuple(place[self.parents[entry - 1]] for entry in best),
            source_masks=(1,) * len(best),
            scores=tuple(self.scores[entry - 1] for entry in best),
            source_names=(source,),
        )

    def _add(self, parent: int, token_id: int, score: float) -> None:
        self.token_ids.append(token_id)
        self.parents.append(parent)
        self.scores.append(score)
        self.survivals.append(self.survivals[parent] * score)

    def _best(self) -> list[int]:
        """Entries by survival; of equal ones the earlier found first, so parents lead."""
        entries = range(1, len(self.survivals))
        return sorted(entries, key=lambda entry: -self.survivals[entry])[: self.max_nodes]
