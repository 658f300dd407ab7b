from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.proposer import Proposer
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.candidates.sources.suffix import SuffixSource
from dspark.features import Features
from dspark.token_tree import TokenTree, chain
from dspark.training.replay import Acceptance, TextFeatures, accepted_path, replay

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


class Watching(CandidateSource):
    """Notes what it is shown before each proposal."""

    name = "watching"
    feature_layers = (0,)
    num_features = 2

    def __init__(self) -> None:
        self.seen: list[tuple[int, Features]] = []

    def observe_features(self, sequence: LiveSequence, features: Features) -> None:
        self.seen.append((len(sequence), features))

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        return [TokenTree((), (), (), (), ())] * len(requests)


async def test_features_end_before_the_anchor() -> None:
    source = Watching()
    proposer = Proposer([source], CandidatesConfig(vocab_size=99))
    values = np.arange(10, dtype=np.uint16).reshape(5, 2, 1)
    features = TextFeatures((7, 0), values)
    await replay(proposer, "a", [1, 2, 3, 4, 5, 6], 2, 15, Acceptance(), features)
    assert [length for length, _ in source.seen] == [3, 4, 5]
    for length, shown in source.seen:
        assert (shown.first_position, shown.shape) == (length - 3, (2, 1, 1))
        # The odd numbers are those of layer 0.
        found = np.frombuffer(shown.data, dtype="<u2").tolist()
        assert found == [2 * length - 5, 2 * length - 3]
