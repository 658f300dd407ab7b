"""Grows a token tree node by node, most likely path first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dspark.token_tree import TokenTree

State = TypeVar("State")


@dataclass(slots=True)
class Growth(Generic[State]):
    """The nodes of a grown tree in order of survival; the four lists run in parallel."""

    token_ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def to_tree(self, source: str) -> TokenTree:
        """All nodes from one source."""
        masks = (1,) * len(self.token_ids)
        return TokenTree(
            tuple(self.token_ids), tuple(self.parents), masks, tuple(self.scores), (source,)
        )


def grow(
    root: State,
    expand: Callable[[State, int], Iterable[tuple[int, float, State]]],
    *,
    max_nodes: int,
    max_depth: int,
) -> Growth[State]:
    """The ``max_nodes`` nodes of the highest survival.

    ``expand(state, depth)`` gives ``(token_id, score, state)`` of the children of a node at
    ``depth``; siblings must differ in token. Only nodes that made it into the tree are expanded.
    Equal survivals go in the order of discovery.
    """
    grown: Growth[State] = Growth()
    # (-survival, order of discovery, token, parent entry, score, depth, state)
    frontier: list[tuple[float, int, int, int, float, int, State]] = []
    order = 0
    entry, depth, negative, state = 0, 0, -1.0, root
    while len(grown.token_ids) < max_nodes:
        if depth < max_depth:
            for token_id, score, child in expand(state, depth):
                order += 1
                heapq.heappush(
                    frontier, (negative * score, order, token_id, entry, score, depth + 1, child)
                )
        if not frontier:
            break
        negative, _, token_id, parent, score, depth, state = heapq.heappop(frontier)
        grown.token_ids.append(token_id)
        grown.parents.append(parent)
        grown.scores.append(score)
        grown.states.append(state)
        entry = len(grown.token_ids)
    return grown
