"""The tree of a model of few states, by its levels and by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dspark.candidates.draft_model.level_growth import MIN_SCORE, LevelGrowth
from dspark.token_tree import TokenTree

VOCAB = 4
Path = tuple[int, ...]


class TableModel:
    """Random successors of each path."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._known: dict[Path, np.ndarray] = {}

    def scores(self, path: Path) -> list[float]:
        if path not in self._known:
            self._known[path] = self._random.dirichlet(np.full(VOCAB, 0.5))
        return [float(score) for score in self._known[path]]


def grown(model: TableModel, nodes: int, depth: int, width: int) -> tuple[TokenTree, int]:
    """The tree, and the number of passes it took."""
    growth, passes = LevelGrowth(nodes, depth, width), 0
    while growth.frontier:
        assert len(growth.frontier) <= width
        paths = [path_of(growth, entry) for entry in growth.frontier]
        growth.expand([(range(VOCAB), model.scores(path)) for path in paths])
        passes += 1
    return growth.tree("draft"), passes


def path_of(growth: LevelGrowth, entry: int) -> Path:
    path: list[int] = []
    while entry:
        path.append(growth.token_ids[entry - 1])
        entry = growth.parents[entry - 1]
    return tuple(reversed(path))


def paths_of(tree: TokenTree) -> dict[Path, float]:
    return {
        tuple(tree.token_ids[each] for each in tree.ancestors(node)): tree.survivals[node]
        for node in range(len(tree))
    }


def brute_force(model: TableModel, nodes: int, depth: int) -> dict[Path, float]:
    """The ``nodes`` paths of the highest survival, of all there are."""
    survivals: dict[Path, float] = {(): 1.0}
    for length in range(1, depth + 1):
        for path in itertools.product(range(VOCAB), repeat=length):
            score = model.scores(path[:-1])[path[-1]]
            if path[:-1] in survivals and score >= MIN_SCORE:
                survivals[path] = survivals[path[:-1]] * score
    del survivals[()]
    best = sorted(survivals, key=lambda path: -survivals[path])[:nodes]
    return {path: survivals[path] for path in best}


@pytest.mark.parametrize("nodes", [1, 3, 10, 40])
@pytest.mark.parametrize("depth", [1, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_no_other_tree_of_that_size_survives_better(nodes: int, depth: int, seed: int) -> None:
    model = TableModel(seed)
    tree, passes = grown(model, nodes, depth, width=nodes)
    tree.validate(VOCAB)
    assert paths_of(tree) == pytest.approx(brute_force(model, nodes, depth))
    assert passes <= depth


@pytest.mark.parametrize("seed", range(5))
def test_with_narrow_levels_a_tree_comes_close(seed: int) -> None:
    model = TableModel(seed)
    tree, _ = grown(model, 12, 5, width=3)
    best = sum(brute_force(model, 12, 5).values())
    assert 0.8 * best < sum(tree.survivals) <= best + 1e-9


def test_a_parent_comes_before_its_child_even_where_both_are_certain() -> None:
    growth = LevelGrowth(3, 3, 3)
    for token_id in (7, 8, 9):
        growth.expand([([token_id], [1.0])])
    assert growth.frontier == ()
    tree = growth.tree("draft")
    assert tree.token_ids == (7, 8, 9)
    assert tree.parents == (0, 1, 2)
    assert tree.source_names == ("draft",)


def test_what_cannot_enter_the_tree_is_not_expanded() -> None:
    growth = LevelGrowth(2, 9, 2)
    growth.expand([([1, 2, 3], [0.6, 0.3, 0.1])])
    assert growth.frontier == (1, 2)
    assert growth.possible_gain == pytest.approx(0.9)
    growth.expand([([4], [0.9]), ([5], [0.9])])
    # 1 and 1 4 are the best two; 2 and 2 5 are out.
    assert [growth.token_ids[entry - 1] for entry in growth.frontier] == [4]
    assert growth.tree("draft").token_ids == (1, 4)


@pytest.mark.parametrize(("nodes", "depth"), [(0, 5), (5, 0)])
def test_where_nothing_is_wanted_nothing_is_expanded(nodes: int, depth: int) -> None:
    growth = LevelGrowth(nodes, depth, 4)
    assert growth.frontier == ()
    assert len(growth.tree("draft")) == 0
