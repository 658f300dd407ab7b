"""Grows a token tree node by node, most likely path first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, TypeAlias, TypeVar

from dspark.candidates.keyed_draws import KeyedDraws
from dspark.token_tree import TokenTree

State = TypeVar("State")
# (token, score, state) of the children of one node that are still to be considered, best first.
_Siblings: TypeAlias = Iterator[tuple[int, float, State]]
# -survival, order of discovery, token, parent entry, score, depth, state, the siblings after it,
# survival of the parent. A sibling enters the frontier when the one before it leaves.
_Entry: TypeAlias = tuple[float, int, int, int, float, int, State, _Siblings[State], float]


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
    order = depth = 0
    survival, state = 1.0, root

    def enqueue(siblings: _Siblings[State], parent: int, depth: int, above: float) -> None:
        """The next of the siblings; one that is not worth a node has none after it that is."""
        nonlocal order
        for token_id, score, state in siblings:
            if (reached := above * score) >= min_survival:
                order += 1
                found = -reached, order, token_id, parent, score, depth, state
                heappush(frontier, (*found, siblings, above))
            return

    while len(token_ids) < max_nodes:
        if depth < max_depth:
            below = expand(state, depth)
            children = below if draws is None else draws.rescored(below, depth)
            enqueue(iter(children), len(token_ids), depth + 1, survival)
        if not frontier:
            break
        negative, _, token_id, parent, score, depth, state, siblings, above = heappop(frontier)
        survival = -negative
        enqueue(siblings, parent, depth, above)
        token_ids.append(token_id)
        parents.append(parent)
        scores.append(score)
        states.append(state)
    return grown
