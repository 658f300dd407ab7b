"""A judge learns which nodes are hopeless, and loses no more than it may."""

from __future__ import annotations

import numpy as np
import pytest

from dspark.sampling import SamplingParams
from dspark.verifier.pruning.chances import Chances
from dspark.verifier.pruning.evidence import NUM_NUMBERS
from dspark.verifier.pruning.forest import Forest, Parent
from dspark.verifier.pruning.judge import LearntJudge
from dspark.verifier.pruning.loss_limit import LossLimit
from dspark.verifier.pruning.node_priors import NUM_PRIORS
from dspark.verifier.pruning.restricted_logits import num_lost, stakes_of

TOKENS = np.arange(12, dtype=np.int64)


def odds(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_nothing_is_dropped_before_enough_was_seen() -> None:
    limit = LossLimit(max_loss=0.1)
    for _ in range(29):
        limit.add(odds(1.0, -5.0), np.array([1, 0]))
    assert not limit.is_ready and not limit.hopeless(odds(-100.0)).any()
    for _ in range(3):
        limit.add(odds(1.0, -5.0), np.array([1, 0]))
    assert limit.is_ready
    assert limit.hopeless(odds(2.0, 0.7, -5.0)).tolist() == [False, True, True]


def test_the_limit_loses_what_it_may_and_no_more() -> None:
    chance = np.random.default_rng(0)
    limit = LossLimit(max_loss=0.05)
    right = chance.normal(1.0, 2.0, size=4000)
    for part in np.split(right, 400):
        limit.add(np.concatenate([part, chance.normal(-2.0, 2.0, 30)]), np.repeat([1, 0], [10, 30]))
    lost = limit.hopeless(chance.normal(1.0, 2.0, 4000)).mean()
    assert 0.03 < lost < 0.06
    assert limit.hopeless(chance.normal(-2.0, 2.0, 4000)).mean() > 0.3


def test_what_was_lost_beyond_its_share_is_taken_off() -> None:
    """Nodes of low odds are never right at first, and then always."""
    limit = LossLimit(max_loss=0.05)
    for _ in range(200):
        limit.add(odds(1.0, -3.0), np.array([1, 0]))
    assert limit.hopeless(odds(-3.0)).all()
    for _ in range(8):
        limit.add(odds(1.0, -3.0), np.array([1, 1]))
    # Eight of 216: fewer than may be lost in all, but more than may be of the last ones.
    assert not limit.hopeless(odds(-3.0)).any()


def test_a_node_stakes_what_hangs_on_it() -> None:
    limit = LossLimit(max_loss=0.05)
    for _ in range(100):
        limit.add(odds(1.0, -3.0), np.array([1, 0]))
    assert limit.hopeless(odds(-3.0)).all()
    limit.add(odds(-3.0), np.array([8]))
    assert not limit.hopeless(odds(-3.0)).any()


def test_old_passes_fade() -> None:
    limit = LossLimit(max_loss=0.05)
    for accepted in (1.0, -3.0):
        for _ in range(3000):
            limit.add(odds(accepted), np.array([1]))
    assert limit.hopeless(odds(-3.5)).all() and not limit.hopeless(odds(-2.5)).any()


def test_chances_find_what_tells() -> None:
    generator = np.random.default_rng(1)
    chances = Chances()
    wanted = np.zeros(NUM_NUMBERS)
    wanted[[0, 1, 4]] = [1.0, -2.0, -1.0]
    for _ in range(400):
        evidence = generator.normal(size=(10, NUM_NUMBERS))
        evidence[:, 0] = 1.0
        accepted = generator.random(10) < 1 / (1 + np.exp(-(evidence @ wanted)))
        chances.learn(evidence, accepted)
    asked = generator.normal(size=(500, NUM_NUMBERS))
    asked[:, 0] = 1.0
    assert np.corrcoef(chances.log_odds(asked), asked @ wanted)[0, 1] > 0.98


def test_chances_stay_finite_whatever_comes() -> None:
    chances = Chances()
    huge = np.full((3, NUM_NUMBERS), 1e3)
    for accepted in (True, False) * 20:
        chances.learn(huge, np.full(3, accepted))
        chances.learn(np.zeros((0, NUM_NUMBERS)), np.zeros(0, dtype=np.bool_))
    assert np.isfinite(chances.log_odds(huge)).all()


def forest_of(right: int, others: list[int]) -> Forest:
    """The right token is the first of the anchor's children or not, by its id."""
    tokens = sorted([right, *others])
    size = len(tokens)
    return Forest(
        num_rows=size + 1,
        parents=(Parent(0, 5, SamplingParams(temperature=0.0)),),
        rows=np.arange(1, size + 1),
        token_ids=np.array(tokens),
        parent_places=np.zeros(size, dtype=np.int64),
        parent_nodes=np.full(size, -1),
        priors=np.zeros((size, NUM_PRIORS)),
    )


@pytest.mark.parametrize("bias", [0.0, 20.0])
def test_a_judge_learns_from_rows_that_tell_the_truth(bias: float) -> None:
    """``bias``: tokens below 6 look likely everywhere, which says nothing."""
    generator = np.random.default_rng(2)
    judge = LearntJudge(max_loss=0.05)
    for _ in range(300):
        right, *others = generator.permutation(len(TOKENS))[:4].tolist()
        forest = forest_of(right, others)
        logits = generator.normal(size=(1, len(TOKENS))) + bias * (TOKENS < 6)
        logits[0, right] += 8.0
        hopeless = judge.hopeless(forest, TOKENS, logits.astype(np.float32))
        place = forest.token_ids.tolist().index(right)
        judge.learn(forest, stakes_of([[place]], len(forest)))
    assert judge.is_ready
    assert not hopeless[place] and hopeless.sum() == 3


def test_stakes_and_losses_of_a_path() -> None:
    assert stakes_of([[0, 2, 5], [], [7]], 9).tolist() == [3, 0, 2, 0, 0, 1, 0, 1, 0]
    stays = np.array([True, True, False, True, True, False])
    assert num_lost([0, 2, 5], stays) == 2
    assert num_lost([0, 1, 3], stays) == num_lost([], stays) == 0
