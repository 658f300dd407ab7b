from __future__ import annotations

import numpy as np
import pytest

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.draft_heads import DraftHeads
from dspark.candidates.sources.interface import DraftRequest
from dspark.candidates.sources.medusa import MedusaSource
from dspark.features import Features
from dspark.keyed_noise import KeyedNoise

VOCAB = 8


class FixedHeads(DraftHeads):
    """Two heads over the ids 2 to 5; the first hidden value scales fixed probabilities."""

    hidden_size = 2
    vocab_size = VOCAB
    token_ids = np.arange(2, 6)
    temperatures = np.ones(2, dtype=np.float32)

    def logits(self, hidden, anchors):
        logs = np.log(np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]], dtype=np.float32))
        return logs[None] * hidden[:, :1, None]

    def bias(self, previous, columns):
        # After 2 the token 4 is certain, after all others nothing changes.
        return np.where(columns == 2, 30.0, 0.0).astype(np.float32) if previous == 2 else None


def hidden_at(position: int, scale: float = 1.0, tokens: int = 1) -> Features:
    values = np.tile(np.array([scale, 0.0], dtype=np.float32), tokens)
    data = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    return Features(position - tokens + 1, (tokens, 1, 2), data)


def request(
    *token_ids: int, max_nodes: int = 6, max_depth: int = 9, temperature: float = 0.0
) -> DraftRequest:
    sequence = LiveSequence("r", 1, token_ids=list(token_ids), temperature=temperature, seed=5)
    return DraftRequest(sequence, max_nodes, max_depth)


def propose(source: MedusaSource, *requests: DraftRequest):
    for wanted in requests:
        source.observe_features(wanted.sequence, hidden_at(len(wanted.sequence) - 2))
    return source.propose(requests, 0.0)


def test_grows_the_likeliest_paths_with_the_markov_bias() -> None:
    (tree,) = propose(MedusaSource(FixedHeads()), request(1, 7))
    # 2 (.6), then 4 for certain after it, then 3 (.2), 3 5 (.12), 4 and 5 (.1)
    assert tree.token_ids[:4] == (2, 4, 3, 5)
    assert tree.parents[:4] == (0, 1, 0, 3)
    assert tree.scores[:4] == pytest.approx((0.6, 1.0, 0.2, 0.6), abs=1e-5)
    assert tree.source_names == ("medusa",)


def test_at_a_temperature_the_draws_noise_decides() -> None:
    source = MedusaSource(FixedHeads())
    (tree,) = propose(source, request(1, 7, temperature=2.0))
    heads = FixedHeads()
    logits = heads.logits(np.ones((1, 2), dtype=np.float32), np.array([7]))[0]
    # The anchor is at position 1, so the first guess is for position 2.
    noise = KeyedNoise(5, 2).gumbel(heads.token_ids)
    best = int(heads.token_ids[(logits[0] / 2.0 + noise).argmax()])
    first = next(iter(tree.children[0]))
    assert first == best
    powers = np.exp(logits[0] + 2.0 * noise)
    assert tree.scores[0] == pytest.approx(float((powers / powers.sum()).max()), abs=1e-4)


@pytest.mark.parametrize(("nodes", "depth", "most"), [(3, 9, 2), (6, 1, 1), (0, 9, 0)])
def test_keeps_to_the_limits(nodes: int, depth: int, most: int) -> None:
    (tree,) = propose(MedusaSource(FixedHeads()), request(1, 7, max_nodes=nodes, max_depth=depth))
    assert len(tree) <= nodes
    assert max(tree.depths, default=0) <= most


def test_without_fresh_features_there_is_no_guess() -> None:
    source, wanted = MedusaSource(FixedHeads()), request(1, 2, 3)
    assert len(source.propose([wanted], 0.0)[0]) == 0
    for position in (0, 2):
        source.observe_features(wanted.sequence, hidden_at(position))
        assert len(source.propose([wanted], 0.0)[0]) == 0
    source.observe_features(wanted.sequence, hidden_at(1))
    assert len(source.propose([wanted], 0.0)[0]) > 0
    wanted.sequence.token_ids.append(4)
    assert len(source.propose([wanted], 0.0)[0]) == 0


def test_only_the_last_of_several_tokens_counts() -> None:
    source, wanted = MedusaSource(FixedHeads()), request(1, 2, 3)
    source.observe_features(wanted.sequence, hidden_at(1, tokens=2))
    assert len(source.propose([wanted], 0.0)[0]) > 0


def test_a_batch_guesses_as_single_requests_do() -> None:
    source = MedusaSource(FixedHeads())
    requests = [request(1, 7), request(1, 2), request(3, 4, 5)]
    for wanted, scale in zip(requests, (1.0, 0.5, 2.0), strict=True):
        source.observe_features(wanted.sequence, hidden_at(len(wanted.sequence) - 2, scale))
    unready = request(1, 2)
    trees = source.propose([requests[0], unready, *requests[1:]], 0.0)
    assert len(trees[1]) == 0
    alone = [source.propose([wanted], 0.0)[0] for wanted in requests]
    assert [trees[0], *trees[2:]] == alone
    assert alone[0] != alone[1]


@pytest.mark.parametrize("token_ids", [(1, VOCAB), (7,)])
def test_an_anchor_that_cannot_be_looked_up_gets_no_guess(token_ids: tuple[int, ...]) -> None:
    (tree,) = propose(MedusaSource(FixedHeads()), request(*token_ids))
    assert len(tree) == 0


def test_features_of_another_model_are_an_error() -> None:
    source, wanted = MedusaSource(FixedHeads()), request(1, 2)
    with pytest.raises(ValueError, match="do not fit"):
        source.observe_features(wanted.sequence, Features(0, (1, 1, 3), bytes(6)))


def test_a_released_sequence_is_forgotten() -> None:
    source, wanted = MedusaSource(FixedHeads()), request(1, 2)
    propose(source, wanted)
    assert source.vitals().num_entries == 1
    source.release(wanted.sequence, True)
    assert source.vitals().num_entries == 0
