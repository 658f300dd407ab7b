"""Merges the trees of several sources by prefix into one tree (pure)."""

from __future__ import annotations

from operator import itemgetter

from dspark.candidates.best_first import grow
from dspark.token_tree import TokenTree

# A merged score stays off 0 and 1: a proposed node may be right, and no agreement makes it certain.
MIN_SCORE = 1e-6
MAX_SCORE = 0.98


class _Prefix:
    """A node of the trie: what its proposers say of it, and what may follow."""

    __slots__ = ("children", "mask", "miss")

    def __init__(self) -> None:
        self.mask = 0
        # probability that all its proposers are wrong, taking them as independent
        self.miss = 1.0
        self.children: dict[int, _Prefix] = {}

    @property
    def score(self) -> float:
        score = 1.0 - self.miss
        if score > MAX_SCORE:
            return MAX_SCORE
        return score if score > MIN_SCORE else MIN_SCORE


class MergedTrees:
    """The trees of several sources over one anchor, merged by prefix.

    A node that several sources propose scores ``1 - prod(1 - score)``. Nodes that make no sense
    (token outside the vocabulary, parent not before child, score outside (0, 1]) are dropped with
    their descendants.
    """

    def __init__(self, source_names: tuple[str, ...], vocab_size: int) -> None:
        self._source_names = source_names
        self._vocab_size = vocab_size
        self._anchor = _Prefix()

    def add(self, source: int, tree: TokenTree) -> None:
        """Add the tree of ``source_names[source]``; of equal siblings the first counts."""
        bit = 1 << source
        placed: list[_Prefix | None] = [self._anchor]
        for token_id, parent, score in zip(tree.token_ids, tree.parents, tree.scores, strict=False):
            above = placed[parent] if 0 <= parent < len(placed) else None
            if above is None or not (0 <= token_id < self._vocab_size and 0.0 < score <= 1.0):
                placed.append(None)
                continue
            prefix = above.children.get(token_id)
            if prefix is None:
                prefix = above.children[token_id] = _Prefix()
            if not prefix.mask & bit:
                prefix.mask |= bit
                prefix.miss *= 1.0 - score
            placed.append(prefix)

    def best(self, max_nodes: int, max_depth: int, min_survival: float = 0.0) -> TokenTree:
        """The nodes of the highest survival, best first, each with all its proposers.

        Those below ``min_survival`` are left out.
        """
        grown = grow(
            self._anchor,
            _expand,
            max_nodes=max_nodes,
            max_depth=max_depth,
            min_survival=min_survival,
        )
        return TokenTree(
            tuple(grown.token_ids),
            tuple(grown.parents),
            tuple([prefix.mask for prefix in grown.states]),
            tuple(grown.scores),
            self._source_names,
        )


def room(tree: TokenTree, max_nodes: int, min_survival: float) -> float:
    """At most so many expected tokens could come with first guesses that ``tree`` lacks.

    At each node some probability is left that none of its children is right. A guess there is worth
    what its survival is above that of the node it would take the place of.
    """
    left = [1.0, *tree.survivals]
    for parent, survival in zip(tree.parents, tree.survivals, strict=True):
        left[parent] -= survival
    floor = min(tree.survivals) if len(tree) >= max_nodes else min_survival
    return sum(max(0.0, probability - floor) for probability in left)


def _expand(prefix: _Prefix, depth: int) -> list[tuple[int, float, _Prefix]]:
    children = [(token_id, child.score, child) for token_id, child in prefix.children.items()]
    if len(children) > 1:
        children.sort(key=itemgetter(1), reverse=True)
    return children
