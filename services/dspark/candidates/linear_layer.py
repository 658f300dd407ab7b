"""Products with a fixed matrix of weights: 8 bits a weight where torch is there, else in numpy."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class LinearLayer(Protocol):
    """``rows`` float32 [num_rows, in_features] to float32 [num_rows, out_features]."""

    def __call__(self, rows: Floats) -> Floats: ...


class FloatLinear(LinearLayer):
    """The product as it is. ``weight`` [out_features, in_features], ``bias`` [out_features]."""

    def __init__(self, weight: Floats, bias: Floats | None = None) -> None:
        # Laid out so that the product reads its weights row by row.
        self._weight, self._bias = np.ascontiguousarray(weight.T), bias

    def __call__(self, rows: Floats) -> Floats:
        product = rows @ self._weight
        return np.asarray(product if self._bias is None else product + self._bias, np.float32)


class Int8Linear(LinearLayer):
    """Weights in 8 bits: a fourth of the bytes, integer products. It needs torch."""

    def __init__(self, weight: Floats, bias: Floats | None = None) -> None:
        import torch

        from dspark.candidates import served_linear

        given = None if bias is None else torch.from_numpy(np.asarray(bias, np.float32))
        self._product = served_linear.Int8Linear(
            torch.from_numpy(np.asarray(weight, np.float32)), given
        )
        self._from_numpy: Any = torch.from_numpy

    def __call__(self, rows: Floats) -> Floats:
        product = self._product(self._from_numpy(np.ascontiguousarray(rows)))
        return np.asarray(product.numpy(), dtype=np.float32)


def compute_on_one_thread() -> None:
    """More threads would spin on processors that the verifier needs; without torch a no-op."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


def linear_layer(weight: Floats, bias: Floats | None = None) -> LinearLayer:
    """The faster of the two that can run here."""
    try:
        return Int8Linear(weight, bias)
    except (ImportError, AttributeError, RuntimeError):
        return FloatLinear(weight, bias)
