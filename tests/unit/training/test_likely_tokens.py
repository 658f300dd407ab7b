from __future__ import annotations

import numpy as np
import pytest
import torch

from dspark.candidates.target_matrices import TargetMatrices
from dspark.training.likely_tokens import WIDTH, LikelyTokens
from dspark.training.text_store import StoredText
from harness.tiny_models import save_tiny_model

HIDDEN, LAYER = 48, 1


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> TargetMatrices:
    return TargetMatrices(save_tiny_model("llama", tmp_path_factory.mktemp("tiny") / "model"))


def text_of(*token_ids: int, num_prompt: int) -> StoredText:
    values = np.random.default_rng(1).standard_normal((len(token_ids) - 1, 2, HIDDEN))
    features = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return StoredText(np.array(token_ids, dtype=np.uint32), num_prompt, features)


def test_places_of_the_answer_get_the_targets_own_odds(target: TargetMatrices) -> None:
    text = text_of(*range(20, 40), num_prompt=5)
    likely = LikelyTokens(target, [text], LAYER).of(text)
    rows = torch.from_numpy((text.features[:, LAYER].astype(np.uint32) << 16).view(np.float32))
    head = torch.from_numpy(target.head_rows(np.array([0, *range(20, 40)])))
    odds = torch.softmax(rows @ head.T, dim=1).numpy()
    assert likely.start == 5
    assert likely.next_ids.shape == likely.shares.shape == (15, WIDTH)
    for place in range(15):
        row = dict(zip([0, *range(20, 40)], odds[4 + place].tolist(), strict=True))
        best = sorted(row.items(), key=lambda item: -item[1])[:WIDTH]
        assert likely.next_ids[place].tolist() == [token_id for token_id, _ in best]
        assert likely.shares[place] == pytest.approx([share for _, share in best], rel=1e-3)


def test_a_small_vocabulary_leaves_fewer(target: TargetMatrices) -> None:
    text = text_of(7, 7, 9, num_prompt=0)
    likely = LikelyTokens(target, [text], LAYER).of(text)
    assert likely.start == 1
    assert likely.shares.shape == (2, 3)
    assert likely.shares.sum(axis=1) == pytest.approx([1, 1], rel=1e-4)
