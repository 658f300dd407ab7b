"""A tree from places where the present context was seen before: what followed there may follow
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dspark.candidates.best_first import grow
from dspark.candidates.keyed_draws import KeyedDraws
from dspark.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class Continuation:
    """``token_ids[start:]`` followed an earlier occurrence of the last ``match_len`` tokens,
    ``count`` times.
    """

    token_ids: Sequence[int]
    start: int
    match_len: int
    count: int = 1


def tree_from_continuations(
    continuations: Sequence[Continuation],
    odds: Sequence[float],
    *,
    source: str,
    max_nodes: int,
    max_depth: int,
    min_survival: float = 0.0,
    draws: KeyedDraws | None = None,
) -> TokenTree:
    """Merge the continuations into one tree.

    ``odds[m]`` (the last entry serves longer matches) is the odds that one occurrence with a match
    of m tokens is right. A child's score is the odds of the occurrences that lead to it over 1 plus
    the odds of all that reach its parent; a match grows with each drafted token. The rest is as in
    ``grow``.
    """
    last = len(odds) - 1

    def expand(
        reached: Sequence[Continuation], depth: int
    ) -> Iterable[tuple[int, float, Sequence[Continuation]]]:
        branches: dict[int, list[Continuation]] = {}
        weights: dict[int, float] = {}
        total = 1.0
        for occurrence in reached:
            position = occurrence.start + depth
            if position >= len(occurrence.token_ids):
                continue
            token_id = occurrence.token_ids[position]
            match_len = occurrence.match_len + depth
            weight = occurrence.count * odds[match_len if match_len < last else last]
            total += weight
            if token_id in branches:
                branches[token_id].append(occurrence)
                weights[token_id] += weight
            else:
                branches[token_id] = [occurrence]
                weights[token_id] = weight
        order = (
            weights if len(weights) < 2 else sorted(weights, key=weights.__getitem__, reverse=True)
        )
        return [(token_id, weights[token_id] / total, branches[token_id]) for token_id in order]

    grown = grow(
        continuations,
        expand,
        max_nodes=max_nodes,
        max_depth=max_depth,
        min_survival=min_survival,
        draws=draws,
    )
    return grown.to_tree(source)
