"""Lets a request have another policy than the server's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dspark.scheduler.policy.interface import (
    Budget,
    RequestView,
    ScoredTree,
    SpeculationPolicy,
    StepContext,
)
from dspark.token_tree import TokenTree


class PerRequestPolicy:
    """The server's policy for all requests but those that name one.

    Those decide first; what they take are rows of the pass to the ones after them. Each policy is
    made when it is first named.
    """

    def __init__(
        self, default: SpeculationPolicy, make: Callable[[str], SpeculationPolicy]
    ) -> None:
        self._default = default
        self._make = make
        self._named: dict[str, SpeculationPolicy] = {}

    @property
    def is_off(self) -> bool:
        return self._default.is_off

    @property
    def price(self) -> float:
        return self._default.price

    def budget(self, views: Sequence[RequestView], context: StepContext) -> list[Budget]:
        if not any(view.policy for view in views):
            return self._default.budget(views, context)
        budgets = [Budget()] * len(views)
        for name, indexes in _groups(view.policy for view in views):
            own = self._of(name).budget([views[index] for index in indexes], context)
            for index, budget in zip(indexes, own, strict=True):
                budgets[index] = budget
        return budgets

    def select(self, trees: Sequence[ScoredTree], context: StepContext) -> list[TokenTree]:
        if not any(tree.policy for tree in trees):
            return self._default.select(trees, context)
        chosen = [TokenTree()] * len(trees)
        for name, indexes in _groups(tree.policy for tree in trees):
            own = self._of(name).select([trees[index] for index in indexes], context)
            for index, tree in zip(indexes, own, strict=True):
                chosen[index] = tree
            taken = sum(map(len, own))
            context = replace(
                context,
                num_rows=context.num_rows + taken,
                max_nodes=context.max_nodes - taken,
            )
        return chosen

    def _of(self, name: str) -> SpeculationPolicy:
        if not name:
            return self._default
        if name not in self._named:
            self._named[name] = self._make(name)
        return self._named[name]


def _groups(names: Iterable[str]) -> list[tuple[str, list[int]]]:
    """Indexes by policy name, the server's own, which has none, last."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        groups.setdefault(name, []).append(index)
    return sorted(groups.items(), key=lambda group: not group[0])
