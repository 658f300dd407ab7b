from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dspark.candidates.sources.block.drafter import Anchor, BlockDrafter
from dspark.candidates.target_matrices import TargetMatrices
from dspark.training.block_batches import BlockBatch, BlockTexts, Passage
from dspark.training.block_model import BlockModel
from dspark.training.text_batches import NO_LABEL
from dspark.training.text_store import StoredText
from harness.tiny_block import IDS, SIZES, VOCAB, WINDOW, random_states, save_target, tiny_drafter

PROMPT, LENGTH = 6, 40
STATES = random_states(LENGTH - 1)
TOKENS = np.random.default_rng(0).integers(0, VOCAB, LENGTH).astype(np.uint32)
ANCHORS = (6, 7, 15, 38)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return save_target(tmp_path / "target")


@pytest.fixture
def model(target: Path) -> BlockModel:
    torch.manual_seed(0)
    return BlockModel(SIZES, TargetMatrices(target), IDS)


def texts_of(*texts: StoredText) -> BlockTexts:
    return BlockTexts(texts, (0, 1), IDS, VOCAB, SIZES.num_slots, WINDOW)


def text(token_ids: NDArray[np.uint32] = TOKENS, prompt: int = PROMPT) -> StoredText:
    return StoredText(token_ids, prompt, random_states(len(token_ids) - 1))


def batch_at(
    anchors: tuple[int, ...],
    states: NDArray[np.uint16] = STATES,
    tokens: NDArray[np.uint32] = TOKENS,
) -> BlockBatch:
    """Blocks at these anchors of one text."""
    blocks = texts_of(StoredText(tokens, PROMPT, states))
    return blocks.at([Passage(0, 0, np.array(anchors))])


def states_of(model: BlockModel, batch: BlockBatch) -> torch.Tensor:
    with torch.no_grad():
        return model.states(batch)[0]


def test_a_block_sees_nothing_of_its_anchor_and_what_comes_after(model: BlockModel) -> None:
    for place, anchor in enumerate(ANCHORS):
        before = states_of(model, batch_at(ANCHORS))[place]
        states, tokens = STATES.copy(), TOKENS.copy()
        states[anchor:] = random_states(LENGTH, seed=1)[anchor : LENGTH - 1]
        tokens[anchor + 1 :] = 3
        after = states_of(model, batch_at(ANCHORS, states, tokens))[place]
        assert torch.equal(before, after)


@pytest.mark.parametrize("distance", [1, WINDOW])
def test_a_block_sees_all_of_the_window_before_its_anchor(model: BlockModel, distance: int) -> None:
    states = STATES.copy()
    states[15 - distance] = random_states(1, seed=1)[0]
    before, after = (states_of(model, batch_at(ANCHORS, some)) for some in (STATES, states))
    assert not torch.equal(before[2], after[2])
    assert torch.equal(before[0], after[0])


def test_a_block_sees_no_further_than_the_window(model: BlockModel) -> None:
    states = STATES.copy()
    states[15 - WINDOW - 1] = random_states(1, seed=1)[0]
    before, after = (states_of(model, batch_at(ANCHORS, some))[2] for some in (STATES, states))
    assert torch.equal(before, after)


def test_a_shorter_block_is_the_beginning_of_a_longer_one(model: BlockModel) -> None:
    batch = batch_at(ANCHORS)
    whole, part = states_of(model, batch), states_of(model, batch.first_slots(2))
    assert part.shape[1] == 2
    torch.testing.assert_close(whole[:, :2], part)


def test_the_source_computes_what_was_trained(model: BlockModel, target: Path) -> None:
    """Bit by bit, with a window that rolls, as in one pass over the whole text."""
    drafter: BlockDrafter = tiny_drafter(target)
    model.network.load_state_dict(drafter._network.state_dict())
    with torch.no_grad():
        expected = model.base_logits(batch_at(ANCHORS))
    window, done = drafter.new_window(), 0
    for place, anchor in enumerate(ANCHORS):
        window.add(done, STATES[done:anchor])
        done = anchor
        found = drafter.logits([Anchor(int(TOKENS[anchor]), anchor, window)], SIZES.num_slots)
        torch.testing.assert_close(found[0], expected[place], rtol=1e-4, atol=1e-5)


def test_labels_are_the_tokens_after_the_anchor() -> None:
    batch = texts_of(text(np.array([1, 4, 5, 2, 9, 11], dtype=np.uint32), prompt=2)).at(
        [Passage(0, 0, np.array([2, 3, 4]))]
    )
    assert batch.anchor_ids.tolist() == [[5, 2, 9]]
    # 2 is not in the draft vocabulary, whose 7 ids are 1 4 5 9 11 12 19.
    no = NO_LABEL
    assert batch.labels.tolist() == [[[no, 3, 4], [3, 4, no], [4, no, no]]]
    assert batch.previous.tolist() == [[[2, 7, 3], [7, 3, 4], [3, 4, 7]]]
    assert batch.features.shape[1] == 4


def test_samples_depend_on_the_seed_alone_and_fit_their_passage() -> None:
    long = np.random.default_rng(1).integers(0, VOCAB, 900).astype(np.uint32)
    texts = texts_of(text(), text(long, prompt=300), text(TOKENS[:8], prompt=7))
    assert len(texts) == 33 + 599
    for step in range(20):
        batch = texts.sample(4, 5, (0, step))
        again = texts.sample(4, 5, (0, step))
        assert batch.anchors.tolist() == again.anchors.tolist()
        assert batch.features.shape[1] <= 384
        assert (batch.anchors >= 1).all() and batch.anchors.max() <= batch.features.shape[1]
    assert batch.anchors.tolist() != texts.sample(4, 5, (1, 3)).anchors.tolist()


def test_held_out_blocks_have_a_label_for_each_slot() -> None:
    texts = texts_of(text(), text(TOKENS[:8], prompt=6), text(TOKENS[:30]))
    (batch,) = texts.held_out(8, 4)
    # Of the first and the last text; places count from a window before the answer.
    assert batch.anchors[:, 0].tolist() == [5, 5]
    assert batch.anchors[:, -1].tolist() == [LENGTH - 4 - 1, 30 - 4 - 1]
    with pytest.raises(ValueError, match="too few or too short"):
        texts_of(text(TOKENS[:8])).held_out(8, 4)


def test_labels_outside_the_vocabulary_cost_nothing(model: BlockModel) -> None:
    tokens = np.full(LENGTH, 3, dtype=np.uint32)
    loss = model.loss(batch_at(ANCHORS, tokens=tokens))
    assert loss.item() == 0
    loss.backward()
