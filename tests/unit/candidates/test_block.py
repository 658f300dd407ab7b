from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from dspark.candidates.sequence import LiveSequence
from dspark.candidates.sources.block.drafter import Anchor, BlockDrafter
from dspark.candidates.sources.block.source import BlockSource
from dspark.candidates.sources.head_guesses import top_logits
from dspark.candidates.sources.interface import DraftRequest
from dspark.features import Features
from dspark.token_tree import TokenTree
from harness.tiny_block import HIDDEN, IDS, VOCAB, WINDOW, features_of, random_states, tiny_drafter

STATES = random_states(60)


@pytest.fixture
def drafter(tmp_path: Path) -> BlockDrafter:
    return tiny_drafter(tmp_path / "target")


def request(
    *token_ids: int, max_nodes: int = 6, max_depth: int = 9, name: str = "r"
) -> DraftRequest:
    return DraftRequest(LiveSequence(name, 1, token_ids=list(token_ids)), max_nodes, max_depth)


def text(length: int, anchor: int = 4, name: str = "r") -> DraftRequest:
    return request(*([1] * (length - 1)), anchor, name=name)


def deliver(source: BlockSource, wanted: DraftRequest, *runs: range, seed: int | None = None):
    states = STATES if seed is None else random_states(60, seed)
    for run in runs:
        source.observe_features(wanted.sequence, features_of(states, run))


def propose(source: BlockSource, wanted: DraftRequest, *runs: range, seed: int | None = None):
    deliver(source, wanted, *runs, seed=seed)
    return source.propose([wanted], 0.0)[0]


def alike(tree: TokenTree, other: TokenTree) -> bool:
    """The same but for the order in which numbers were added up."""
    same = tree.token_ids == other.token_ids and tree.parents == other.parents
    return same and tree.scores == pytest.approx(other.scores, abs=1e-5)


class FixedDrafter(BlockDrafter):
    """The first two of the draft vocabulary at each place, the first more likely."""

    def __init__(self, drafter: BlockDrafter) -> None:
        self.__dict__ |= drafter.__dict__
        self.temperatures = np.ones(3, dtype=np.float32)
        self.slots_asked: list[int] = []

    def logits(self, anchors: Sequence[Anchor], num_slots: int) -> torch.Tensor:
        self.slots_asked.append(num_slots)
        row = np.full(len(IDS), -30.0, dtype=np.float32)
        row[:2] = np.log([0.7, 0.3])
        return torch.from_numpy(np.tile(row, (len(anchors), num_slots, 1)))

    def bias(self, previous: int, columns: np.ndarray) -> np.ndarray:
        # After the first comes the second for certain, after all others nothing changes.
        return np.where((columns == 1) & (previous == IDS[0]), 30.0, 0.0).astype(np.float32)


def test_grows_the_likeliest_paths_with_the_markov_bias(drafter: BlockDrafter) -> None:
    tree = propose(BlockSource(FixedDrafter(drafter)), text(9), range(8))
    first, second = IDS[:2].tolist()
    assert tree.token_ids[:4] == (first, second, first, second)
    assert tree.parents[:4] == (0, 1, 2, 0)
    assert tree.scores[:4] == pytest.approx((0.7, 1.0, 0.7, 0.3), abs=1e-5)
    assert tree.source_names == ("block",)


def test_the_likeliest_are_those_of_all_logits(
    drafter: BlockDrafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspark.candidates.sources.block.drafter.WIDTH", 3)
    window = drafter.new_window()
    window.add(0, STATES[:8])
    anchors = [Anchor(4, 8, window)]
    found = drafter.top(anchors, 2)
    expected = top_logits(drafter.logits(anchors, 2).numpy(), drafter.temperatures[:2], 3)
    np.testing.assert_allclose(found.covered, expected.covered, rtol=1e-5)
    for some in (found, expected):
        order = np.argsort(some.columns, axis=-1)
        some.columns[:] = np.take_along_axis(some.columns, order, -1)
        some.logits[:] = np.take_along_axis(some.logits, order, -1)
    assert found.columns.tolist() == expected.columns.tolist()
    np.testing.assert_allclose(found.logits, expected.logits, rtol=1e-5)


@pytest.mark.parametrize(("nodes", "depth", "most"), [(3, 9, 3), (6, 1, 1), (6, 2, 2), (0, 9, 0)])
def test_keeps_to_the_limits(drafter: BlockDrafter, nodes: int, depth: int, most: int) -> None:
    fixed = FixedDrafter(drafter)
    wanted = request(1, 1, 4, max_nodes=nodes, max_depth=depth)
    tree = propose(BlockSource(fixed), wanted, range(2))
    assert len(tree) <= nodes
    assert max(tree.depths, default=0) <= most
    assert fixed.slots_asked == ([min(3, depth)] if nodes else [])


def test_without_fresh_features_there_is_no_guess(drafter: BlockDrafter) -> None:
    source, wanted = BlockSource(drafter), text(4)
    assert len(source.propose([wanted], 0.0)[0]) == 0
    assert len(propose(source, wanted, range(2))) == 0
    assert len(propose(source, wanted, range(2, 3))) > 0
    wanted.sequence.token_ids.append(4)
    assert len(source.propose([wanted], 0.0)[0]) == 0
    assert len(propose(source, wanted, range(3, 4))) > 0


def test_what_comes_bit_by_bit_is_worth_what_comes_at_once(drafter: BlockDrafter) -> None:
    whole = propose(BlockSource(drafter), text(30), range(29))
    latest = propose(BlockSource(drafter), text(30), range(29 - WINDOW, 29))
    source, wanted = BlockSource(drafter), text(30)
    wanted.sequence.token_ids[:] = wanted.sequence.token_ids[:10]
    propose(source, wanted, range(3, 9))
    wanted.sequence.token_ids[:] = text(30).sequence.token_ids
    pieces = propose(source, wanted, range(7, 20), range(20, 21), range(19, 29))
    assert alike(whole, latest) and alike(whole, pieces)
    assert not alike(whole, propose(BlockSource(drafter), text(30), range(29), seed=1))


def test_only_a_window_before_the_anchor_is_seen(drafter: BlockDrafter) -> None:
    whole = propose(BlockSource(drafter), text(20), range(19))
    source, wanted = BlockSource(drafter), text(20)
    deliver(source, wanted, range(19 - WINDOW), seed=1)
    assert alike(propose(source, wanted, range(19 - WINDOW, 19)), whole)
    source, wanted = BlockSource(drafter), text(20)
    deliver(source, wanted, range(20 - WINDOW), seed=1)
    assert not alike(propose(source, wanted, range(20 - WINDOW, 19)), whole)


def test_what_got_lost_is_gone_without(drafter: BlockDrafter) -> None:
    source, wanted = BlockSource(drafter), text(20)
    wanted.sequence.token_ids[:] = wanted.sequence.token_ids[:5]
    propose(source, wanted, range(4))
    wanted.sequence.token_ids[:] = text(20).sequence.token_ids
    # All that is left of the first four tokens is out of the window.
    with_gap = propose(source, wanted, range(16, 19))
    assert alike(with_gap, propose(BlockSource(drafter), text(20), range(16, 19)))
    assert not alike(with_gap, propose(BlockSource(drafter), text(20), range(19)))


def test_a_batch_guesses_as_single_requests_do(drafter: BlockDrafter) -> None:
    def ready(source: BlockSource) -> list[DraftRequest]:
        requests = [text(9, name="a"), text(3, 7, name="b"), text(40, name="c")]
        for seed, wanted in enumerate(requests):
            end = len(wanted.sequence) - 1
            deliver(source, wanted, range(max(0, end - WINDOW), end), seed=seed)
        return requests

    source = BlockSource(drafter)
    first, *others = ready(source)
    trees = source.propose([first, text(5, name="unready"), *others], 0.0)
    assert len(trees[1]) == 0
    single = BlockSource(drafter)
    alone = [single.propose([wanted], 0.0)[0] for wanted in ready(single)]
    assert all(map(alike, [trees[0], *trees[2:]], alone))
    assert not alike(alone[0], alone[1]) and not alike(alone[1], alone[2])


def test_without_time_for_all_requests_take_turns(drafter: BlockDrafter) -> None:
    source, requests = BlockSource(drafter), [text(9, name=name) for name in "abc"]
    for wanted in requests:
        deliver(source, wanted, range(8))
    source.propose(requests[:1], 0.0)
    # What a request takes is known by now, and the deadline has passed: one is served all the same.
    served = [
        next(place for place, tree in enumerate(source.propose(requests, 0.0)) if len(tree))
        for _ in range(3)
    ]
    assert sorted(served) == [0, 1, 2]
    assert all(map(len, source.propose(requests, time.monotonic() + 3600)))


@pytest.mark.parametrize("token_ids", [(1, VOCAB), (7,)])
def test_an_anchor_that_cannot_be_looked_up_gets_no_guess(
    drafter: BlockDrafter, token_ids: tuple[int, ...]
) -> None:
    source, wanted = BlockSource(drafter), request(*token_ids)
    deliver(source, wanted, range(1))
    assert len(source.propose([wanted], 0.0)[0]) == 0


def test_an_anchor_outside_the_draft_vocabulary_is_seen_all_the_same(drafter: BlockDrafter) -> None:
    assert not {2, 3} & set(IDS.tolist())
    two, three = (propose(BlockSource(drafter), text(9, anchor), range(8)) for anchor in (2, 3))
    assert len(two) > 0 and len(three) > 0 and not alike(two, three)


@pytest.mark.parametrize("shape", [(1, 1, HIDDEN), (1, 2, HIDDEN + 1)])
def test_features_of_another_model_are_an_error(
    drafter: BlockDrafter, shape: tuple[int, int, int]
) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        BlockSource(drafter).observe_features(
            text(3).sequence, Features(0, shape, bytes(2 * int(np.prod(shape))))
        )


def test_a_released_sequence_is_forgotten(drafter: BlockDrafter) -> None:
    source, wanted = BlockSource(drafter), text(3)
    propose(source, wanted, range(2))
    assert source.vitals().num_entries == 1
    source.release(wanted.sequence, True)
    assert source.vitals().num_entries == 0
    assert len(source.propose([wanted], 0.0)[0]) == 0
