"""Grows a token tree node by node, most likely path first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from typing import Generic, TypeAlias, TypeVar

from dspark.candidates.keyed_draws import KeyedDraws
from dspark.token_tree import TokenTree

State = TypeVar("State")
# -survival, order of discovery, token, parent entry, score, depth, state, the siblings after it,
# survival of the parent. A sibling enters the frontier when the one before it leaves.
_Entry: TypeAlias = tuple[
    float, int, int, int, float, int, State, Iterator[tuple[int, float, State]], float
]


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
    min_survival: float = 0.0,
    draws: KeyedDraws | None = None,
) -> Growth[State]:
    """The ``max_nodes`` nodes of the highest survival, of those with ``min_survival`` or more.

    ``expand(state, depth)`` gives ``(token_id, score, state)`` of the children of a node at
    ``depth``, best first and each token once. Only nodes that made it into the tree are expanded,
    and only so far as their children are needed. Equal survivals go in the order of discovery.
    ``draws``, of a request whose tokens are drawn, has the last word on scores; then all children
    of an expanded node are needed at once.
    """
    grown: Growth[State] = Growth()
    token_ids, parents = grown.token_ids, grown.parents
    scores, states = grown.scores, grown.states
    frontier: list[_Entry[State]] = []
    order = entry = depth = 0
    survival, state = 1.0, root
    while len(token_ids) < max_nodes:
        if depth < max_depth:
            below = expand(state, depth)
            children = iter(below if draws is None else draws.rescored(below, depth))
            for token_id, score, child in children:
                # Those after a first one that is not worth a node are not worth one either.
                if (reached := survival * score) >= min_survival:
                    order += 1
                    found = -reached, order, token_id, entry, score, depth + 1, child
                    heappush(frontier, (*found, children, survival))
                break
        if not frontier:
            break
        negative, _, token_id, parent, score, depth, state, siblings, above = frontier[0]
        survival = -negative
        for next_token, next_score, sibling in siblings:
            if (reached := above * next_score) < min_survival:
                heappop(frontier)
                break
            order += 1
            found = -reached, order, next_token, parent, next_score, depth, sibling
            heapreplace(frontier, (*found, siblings, above))
            break
        else:
            heappop(frontier)
        token_ids.append(token_id)
        parents.append(parent)
        scores.append(score)
        states.append(state)
        entry = len(token_ids)
    return grown
