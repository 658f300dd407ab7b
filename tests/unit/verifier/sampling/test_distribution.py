"""What the walk draws follows the exact distribution, whatever the tree (chi-square)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dspark.sampling import SamplingParams
from dspark.token_tree import TokenTree
from dspark.verifier.sampling.sampler import Sampler
from dspark.verifier.sampling.walk import StopRules, walk
from harness.plain_sampling import probabilities
from harness.scripted_drafters import tree_of

NUM_DRAWS = 20_000
# The seeds are fixed, so a test either always passes or never.
SIGNIFICANCE = 1e-4
LOGITS = np.array([1.0, -0.5, 0.3, 1.0, -2.0, 0.8], dtype=np.float32)
CHILD_LOGITS = np.array([-1.0, 0.5, 0.2, -0.7, 1.5, 0.0], dtype=np.float32)
TREES = {
    "empty": TokenTree(),
    "one": tree_of([0], [0]),
    "two": tree_of([3, 1], [0, 0]),
    "five": tree_of([0, 1, 2, 3, 5], [0] * 5),
    "duplicates": tree_of([0, 0, 3, 3], [0] * 4),
}
FILTERS = {
    "none": {},
    "top_k": {"top_k": 3},
    "top_p": {"top_p": 0.7},
    "min_p": {"min_p": 0.3},
    "all": {"top_k": 5, "top_p": 0.9, "min_p": 0.1},
}


def assert_fits(counts: np.ndarray, exact: list[float]) -> None:
    """Pearson's chi-square over the tokens that can be drawn; the others were not."""
    possible = [i for i, p in enumerate(exact) if p > 0]
    assert counts.sum() == counts[possible].sum()
    if len(possible) > 1:
        expected = np.array([exact[i] for i in possible]) * counts.sum()
        assert stats.chisquare(counts[possible], expected).pvalue > SIGNIFICANCE


# Each temperature, filter and tree; every combination of them is compared draw by draw with plain
# sampling in test_walk.
CASES = [
    pytest.param(temperature, FILTERS[filters], TREES[tree], id=f"{temperature}-{filters}-{tree}")
    for temperature, filters, tree in (
        (1.0, "none", "empty"),
        (2.0, "top_k", "one"),
        (0.3, "top_p", "two"),
        (1.0, "min_p", "five"),
        (2.0, "all", "duplicates"),
    )
]


@pytest.mark.parametrize(("temperature", "filters", "tree"), CASES)
def test_first_and_second_token(
    temperature: float, filters: dict[str, float], tree: TokenTree
) -> None:
    params = SamplingParams(temperature=temperature, **filters)
    rows = np.stack([LOGITS] + [CHILD_LOGITS] * len(tree))
    first = np.zeros(len(LOGITS), dtype=np.int64)
    second = np.zeros(len(LOGITS), dtype=np.int64)
    for seed in range(NUM_DRAWS):
        sampler = Sampler(replace(params, seed=seed))
        result = walk(tree, rows, sampler, StopRules(frozenset(), 2), base_len=5)
        first[result.committed_token_ids[0]] += 1
        if len(result.committed_token_ids) > 1:
            second[result.committed_token_ids[1]] += 1
    assert_fits(first, probabilities(LOGITS.tolist(), params))
    if second.sum():
        assert_fits(second, probabilities(CHILD_LOGITS.tolist(), params))


def test_positions_of_one_seed_are_independent_draws() -> None:
    params = SamplingParams(temperature=1.0, seed=42)
    sampler = Sampler(params)
    draws = [sampler.draw(LOGITS, position, []) for position in range(NUM_DRAWS)]
    exact = probabilities(LOGITS.tolist(), params)
    assert_fits(np.bincount(draws, minlength=len(LOGITS)), exact)
    pairs = np.zeros((len(LOGITS), len(LOGITS)), dtype=np.int64)
    np.add.at(pairs, (draws[:-1], draws[1:]), 1)
    assert stats.chi2_contingency(pairs).pvalue > SIGNIFICANCE


def test_large_vocabulary_draws_follow_the_distribution() -> None:
    """The shortcut that scores few tokens is exact: groups of a skewed 5000-token row."""
    generator = np.random.default_rng(1)
    logits = (generator.standard_normal(5000) * 3).astype(np.float32)
    params = SamplingParams(temperature=1.0)
    exact = np.array(probabilities(logits.tolist(), params))
    groups = np.argsort(np.argsort(-exact)) // 20
    counts = np.zeros(groups.max() + 1)
    for seed in range(5000):
        counts[groups[Sampler(replace(params, seed=seed)).draw(logits, 3, [])]] += 1
    expected = np.bincount(groups, weights=exact) * 5000
    frequent = expected >= 5
    tail = (counts[~frequent].sum(), expected[~frequent].sum())
    observed = np.append(counts[frequent], tail[0])
    assert stats.chisquare(observed, np.append(expected[frequent], tail[1])).pvalue > SIGNIFICANCE
