"""Fits a token tree to a grammar: what it forbids goes, what it leaves no choice about comes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from dspark.token_tree import TokenTree
from dspark.verifier.structure.matcher import Matcher

FORCED = -1
# Survival of a node below which what is forced behind it is not worth its rows.
MIN_SURVIVAL = 0.2


@dataclass(frozen=True, slots=True)
class FittedTree:
    """A tree, and for each node its number in the tree that it was made of; FORCED has none."""

    tree: TokenTree
    origins: tuple[int, ...]


def fit_tree(
    tree: TokenTree, matcher: Matcher, *, max_forced: int, max_depth: int, end_ids: Set[int]
) -> FittedTree:
    """The nodes that the grammar allows, then at most ``max_forced`` that it forces.

    The matcher stands where the tree grows from, and does so again afterwards, unless it raises
    MatcherFailed. Nothing grows from a token of ``end_ids``. No forced node is deeper than
    ``max_depth``, nor behind a node that hardly survives.
    """
    fitting = _Fitting(tree, matcher, max_forced, max_depth, end_ids)
    fitting.visit(0, 0)
    return fitting.result()


class _Fitting:
    """Entries as in TokenTree: 0 is the anchor, i + 1 node i; forced nodes follow the tree's."""

    def __init__(
        self,
        tree: TokenTree,
        matcher: Matcher,
        max_forced: int,
        max_depth: int,
        end_ids: Set[int],
    ) -> None:
        self._tree = tree
        self._matcher = matcher
        self._room = max_forced
        self._max_depth = max_depth
        self._end_ids = end_ids
        self._children = [dict(children) for children in tree.children]
        self._kept: list[int] = []
        # (token, entry of the parent)
        self._forced: list[tuple[int, int]] = []

    def visit(self, entry: int, depth: int) -> None:
        """Fit what grows from an entry of the tree, at which the matcher stands."""
        forced = self._matcher.forced()
        if entry == 0 or self._tree.survivals[entry - 1] >= MIN_SURVIVAL:
            self._graft(entry, depth, forced)
        for token_id, child in self._tree.children[entry].items():
            if self._is_allowed(token_id, forced):
                self._kept.append(child)
                self._descend(token_id, child, depth + 1)

    def _is_allowed(self, token_id: int, forced: Sequence[int]) -> bool:
        return token_id == forced[0] if forced else self._matcher.allows(token_id)

    def _descend(self, token_id: int, child: int, depth: int) -> None:
        can_grow = self._room > 0 and depth < self._max_depth
        if token_id in self._end_ids or not (self._tree.children[child] or can_grow):
            return
        self._matcher.consume((token_id,))
        if not self._matcher.is_complete:
            self.visit(child, depth)
        self._matcher.rollback(1)

    def _graft(self, entry: int, depth: int, forced: Sequence[int]) -> None:
        """Let forced tokens follow an entry, as far as they do not yet."""
        for place, token_id in enumerate(forced):
            child = self._children[entry].get(token_id)
            if child is None:
                if not self._room or depth + place >= self._max_depth:
                    return
                child = self._add(token_id, entry)
            entry = child

    def _add(self, token_id: int, parent: int) -> int:
        self._room -= 1
        self._forced.append((token_id, parent))
        entry = len(self._tree) + len(self._forced)
        self._children[parent][token_id] = entry
        self._children.append({})
        return entry

    def result(self) -> FittedTree:
        kept = sorted(entry - 1 for entry in self._kept)
        numbers = {0: 0} | {node + 1: place + 1 for place, node in enumerate(kept)}
        for place in range(len(self._forced)):
            numbers[len(self._tree) + 1 + place] = len(kept) + 1 + place
        allowed = self._tree.subtree(kept)
        size = len(self._forced)
        tree = TokenTree(
            token_ids=allowed.token_ids + tuple(token_id for token_id, _ in self._forced),
            parents=allowed.parents + tuple(numbers[parent] for _, parent in self._forced),
            source_masks=allowed.source_masks + (0,) * size,
            scores=allowed.scores + (1.0,) * size,
            source_names=allowed.source_names,
        )
        return FittedTree(tree, (*kept, *(FORCED,) * size))
