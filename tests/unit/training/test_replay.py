from __future__ import annotations

import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.sources.suffix import SuffixSource
from dspark.token_tree import TokenTree, chain
from dspark.training.replay import Acceptance, accepted_path, replay

TREE = TokenTree((5, 6, 7), (0, 0, 1), (1, 1, 1), (0.5, 0.25, 1.0), ("x",))


def test_a_path_follows_the_truth_as_far_as_the_tree_goes() -> None:
    assert accepted_path(TREE, [5, 7, 9]) == [0, 2]
    assert accepted_path(TREE, [6, 7]) == [1]
    assert accepted_path(TREE, [9]) == []
    assert accepted_path(TREE, []) == []


def test_counts_depths_and_scores_of_what_was_tried() -> None:
    acceptance = Acceptance()
    acceptance.add(TREE, [0, 2])
    acceptance.add(TREE, [1])
    acceptance.add(chain([5], "x"), [])
    assert acceptance.acceptance_length == 2.0
    assert acceptance.conditional == [2 / 3, 1 / 2, 0.0]
    # scores 0.5 right once in two, 0.25 once in two, 1.0 once in two
    assert acceptance.calibration_error == pytest.approx((0.0 + 0.5 + 1.0) / 6)


async def test_a_text_that_repeats_itself_takes_few_passes() -> None:
    proposer = Proposer([SuffixSource()], CandidatesConfig(vocab_size=99))
    acceptance = Acceptance()
    await replay(proposer, "a", [1, 2, 3, 4, 5] * 8, 5, 15, acceptance)
    # the first answer token comes with the prompt's pass
    assert acceptance.num_tokens == 34
    assert acceptance.num_rounds <= 5
    assert len(proposer.sequences) == 0
