"""The start-up self-test passes a model of independent rows and catches every other kind."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dspark.verifier.attention.slot_lists import SlotLists
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.model.self_test import RowInvarianceTest

VOCAB_SIZE, NUM_SLOTS = 11, 256


class SummingModel:
    """Logits are the sum of the tokens that a row sees; ``fault`` adds a dependence."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.memory = np.zeros(NUM_SLOTS)

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        self.memory[batch.slot_mapping] = batch.token_ids
        lists = SlotLists(batch)
        rows = []
        for row in batch.logits_rows.tolist():
            total = float(self.memory[lists.of(row)].sum())
            rows.append(np.full(VOCAB_SIZE, total + self._error(batch, row), dtype=np.float32))
        return np.stack(rows)

    def _error(self, batch: ForwardBatch, row: int) -> float:
        faulty = {
            "": False,
            "single rows": batch.num_rows == 1,
            "many rows": batch.num_rows > 32,
            "trees": bool(batch.tail_lens[row]),
            "prefill": batch.num_rows == 20,
        }
        return 1e-3 * faulty[self.fault]


def failures(fault: str) -> list[str]:
    model = SummingModel(fault)
    return RowInvarianceTest(model.forward, VOCAB_SIZE, NUM_SLOTS, block_size=16).failures()


def test_independent_rows_pass() -> None:
    assert failures("") == []


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("single rows", "one row among 2"),
        ("many rows", "one row among 33"),
        ("trees", "tree rows"),
        ("prefill", "prefill in one chunk"),
    ],
)
def test_dependent_rows_are_caught(fault: str, expected: str) -> None:
    assert expected in failures(fault)


def test_a_pool_that_is_too_small_proves_nothing() -> None:
    model = SummingModel()
    (failure,) = RowInvarianceTest(model.forward, VOCAB_SIZE, 40, block_size=16).failures()
    assert "40 slots" in failure
