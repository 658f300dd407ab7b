"""How far behind the best a node is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dspark.keyed_noise import KeyedNoise
from dspark.sampling import SamplingParams
from dspark.verifier.pruning.forest import Forest, Parent
from dspark.verifier.pruning.likely_tokens import LikelyTokens
from dspark.verifier.pruning.margins import node_margins

GREEDY = SamplingParams(temperature=0.0)
TOKENS = np.array([4, 7, 9], dtype=np.int64)
LOGITS = np.array([[1.0, 3.0, -2.0], [0.5, 0.0, 5.0]], dtype=np.float32)


def forest(sampling: SamplingParams) -> Forest:
    return Forest(
        num_rows=5,
        parents=(Parent(1, 20, sampling), Parent(2, 21, sampling)),
        rows=np.array([2, 3, 4]),
        token_ids=np.array([7, 4, 9]),
        parent_places=np.array([0, 0, 1]),
        parent_nodes=np.array([-1, -1, 0]),
        kinds=np.zeros(3, dtype=np.int64),
    )


def test_a_margin_is_the_distance_to_the_best_token_of_the_row() -> None:
    assert node_margins(forest(GREEDY), TOKENS, LOGITS).tolist() == [0.0, 2.0, 0.0]


def test_above_temperature_0_scores_are_those_of_the_draw() -> None:
    sampling = SamplingParams(temperature=0.5, seed=9)
    margins = node_margins(forest(sampling), TOKENS, LOGITS)
    for node, (place, column) in enumerate([(0, 1), (0, 0), (1, 2)]):
        noise = KeyedNoise(9, 20 + place).gumbel(TOKENS)
        scores = LOGITS[place] / 0.5 + noise
        np.testing.assert_allclose(margins[node], scores.max() - scores[column])


def test_what_is_no_number_is_no_margin_and_no_warning() -> None:
    for value in (np.nan, np.inf):
        logits = LOGITS.copy()
        logits[0, 1] = value
        margins = node_margins(forest(GREEDY), TOKENS, logits)
        assert not margins[0] > 0 and margins[2] == 0.0


def test_temperatures_differ_by_parent() -> None:
    mixed = forest(GREEDY)
    drawn = replace(mixed.parents[1], sampling=SamplingParams(temperature=1.0, seed=3))
    margins = node_margins(replace(mixed, parents=(mixed.parents[0], drawn)), TOKENS, LOGITS)
    assert margins[:2].tolist() == [0.0, 2.0]
    scores = LOGITS[1] + KeyedNoise(3, 21).gumbel(TOKENS)
    np.testing.assert_allclose(margins[2], scores.max() - scores[2], rtol=1e-6)


def test_likely_tokens_are_the_last_different_ones() -> None:
    likely = LikelyTokens(size=3)
    likely.note([5, 6, 5, 7])
    assert likely.together_with(np.array([6, 2])).tolist() == [2, 5, 6, 7]
    likely.note([8])
    assert likely.together_with(np.array([], dtype=np.int64)).tolist() == [5, 7, 8]
