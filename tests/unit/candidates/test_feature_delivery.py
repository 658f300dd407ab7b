"""Each source gets the layers it asked for, of the sequences it knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.layer_choice import union_of, with_layers
from dspark.candidates.proposer import Proposer
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.interface import CandidateSource, DraftRequest
from dspark.features import Features
from dspark.proposal import CandidatesUpdate, SequenceEnd, SequenceFeatures, SequenceUpdate
from dspark.token_tree import TokenTree

SIZE = 3
START = SequenceUpdate("r", 1, 0, (1, 2, 3, 4), 4)


class Observer(CandidateSource):
    """Keeps what it observes, with the sequence's length at that time."""

    def __init__(self, name: str, layers: tuple[int, ...], num_features: int) -> None:
        self.name = name
        self.feature_layers = layers
        self.num_features = num_features
        self.seen: list[tuple[str, int, Features]] = []

    def propose(self, requests: Sequence[DraftRequest], deadline: float) -> list[TokenTree]:
        return [TokenTree() for _ in requests]

    def observe_features(self, sequence: LiveSequence, features: Features) -> None:
        self.seen.append((sequence.request_id, len(sequence), features))


class Crashing(Observer):
    """Raises from what it observes."""

    def observe_features(self, sequence: LiveSequence, features: Features) -> None:
        raise RuntimeError("crashed while observing")


def features_of(first: int, num_tokens: int, layers: tuple[int, ...]) -> Features:
    """Each element says its position and layer."""
    values = np.array(
        [
            [[100 * position + layer] * SIZE for layer in layers]
            for position in range(first, first + num_tokens)
        ],
        dtype="<u2",
    )
    return Features(first, (num_tokens, len(layers), SIZE), values.tobytes())


def update(features: Features, epoch: int = 1, request_id: str = "r") -> CandidatesUpdate:
    return CandidatesUpdate((START,), features=(SequenceFeatures(request_id, epoch, features),))


def proposer_with(*sources: CandidateSource) -> Proposer:
    return Proposer(sources, CandidatesConfig(vocab_size=100))


def test_the_info_merges_what_sources_want() -> None:
    idle = Observer("none of no layer", (), 9), Observer("no token", (7,), 0)
    proposer = proposer_with(Observer("a", (4, 0), 1), *idle, Observer("b", (2, 4), 3))
    assert (proposer.info.feature_layers, proposer.info.num_features) == ((0, 2, 4), 3)
    assert proposer.info.feature_sources == ("a", "b")
    assert proposer_with(*idle).info.feature_layers == ()
    assert union_of([]) == ()


def test_each_source_gets_its_layers_in_its_order_and_its_number_of_tokens() -> None:
    first, second = Observer("a", (4, 0), 1), Observer("b", (0, 2, 4), 3)
    silent = Observer("c", (), 0)
    proposer_with(first, second, silent).observe(update(features_of(0, 3, (0, 2, 4))))
    # The sequence has its new tokens by then.
    assert first.seen == [("r", 4, features_of(2, 1, (4, 0)))]
    assert second.seen == [("r", 4, features_of(0, 3, (0, 2, 4)))]
    assert silent.seen == []


def test_all_layers_in_order_are_not_copied() -> None:
    given = features_of(0, 2, (0, 2))
    assert with_layers(given, (0, 2), (0, 2)) is given


@pytest.mark.parametrize(
    "unfit",
    [
        update(features_of(2, 1, (0,)), request_id="unknown"),
        update(features_of(2, 1, (0,)), epoch=0),
        update(features_of(2, 1, (0,)), epoch=2),
        update(features_of(4, 1, (0,))),
        update(features_of(2, 3, (0,))),
        update(features_of(2, 1, (0, 1))),
    ],
)
def test_what_does_not_fit_is_dropped_and_the_rest_stays(unfit: CandidatesUpdate) -> None:
    observer = Observer("a", (0,), 1)
    proposer = proposer_with(observer)
    assert proposer.observe(unfit) == ()
    assert observer.seen == [] and proposer.features.num_dropped == 1
    assert len(proposer.sequences) == 1


def test_features_come_before_the_end_of_their_sequence() -> None:
    observer = Observer("a", (0,), 1)
    sent = SequenceFeatures("r", 1, features_of(2, 1, (0,)))
    proposer = proposer_with(observer)
    proposer.observe(CandidatesUpdate((START,), (), (SequenceEnd("r", 1, True),), (sent,)))
    assert len(observer.seen) == 1 and len(proposer.sequences) == 0


def test_a_source_that_raises_takes_nothing_from_the_others() -> None:
    observer = Observer("a", (0,), 1)
    proposer = proposer_with(Crashing("crash", (0,), 1), observer)
    proposer.observe(update(features_of(2, 1, (0,))))
    assert len(observer.seen) == 1 and proposer.runners[0].failures == {"raised": 1}
