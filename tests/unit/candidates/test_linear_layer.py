from __future__ import annotations

import sys

import numpy as np
import pytest

from dspark.candidates.linear_layer import FloatLinear, Int8Linear, linear_layer

CHANCE = np.random.default_rng(7)
WEIGHT = CHANCE.normal(size=(40, 64)).astype(np.float32) * np.logspace(-3, 1, 40)[:, None]
BIAS = CHANCE.normal(size=40).astype(np.float32)
ROWS = CHANCE.normal(size=(3, 64)).astype(np.float32)


@pytest.mark.parametrize("bias", [None, BIAS])
def test_floats_give_the_product(bias: np.ndarray | None) -> None:
    weight = WEIGHT.astype(np.float32)
    expected = ROWS @ weight.T + (0 if bias is None else bias)
    assert FloatLinear(weight, bias)(ROWS) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("bias", [None, BIAS])
def test_eight_bits_are_close_whatever_the_size_of_a_row(bias: np.ndarray | None) -> None:
    weight = WEIGHT.astype(np.float32)
    expected = ROWS @ weight.T
    given = Int8Linear(weight, bias)(ROWS) - (0 if bias is None else bias)
    spread = np.linalg.norm(weight, axis=1)
    assert given.dtype == np.float32
    assert (np.abs(given - expected) / spread).max() < 0.1


def test_a_row_of_zeros_gives_zeros() -> None:
    weight = np.zeros((2, 8), dtype=np.float32)
    assert Int8Linear(weight)(ROWS[:, :8]).tolist() == [[0.0, 0.0]] * 3


def test_without_torch_floats_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert isinstance(linear_layer(WEIGHT), FloatLinear)
    monkeypatch.undo()
    assert isinstance(linear_layer(WEIGHT), Int8Linear)
