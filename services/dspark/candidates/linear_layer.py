"""Products with a fixed matrix of weights: 8 bits a weight where torch is there, else in numpy."""

from __future__ import annotations

import warnings
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
    """Weights with a scale for each row of the matrix, inputs with one scale a call (PyTorch's
    dynamic quantisation, FBGEMM or oneDNN): a fourth of the bytes, integer products.
    """

    def __init__(self, weight: Floats, bias: Floats | None = None) -> None:
        import torch

        self._from_numpy: Any = torch.from_numpy
        self._product: Any = torch.ops.quantized.linear_dynamic
        scales = np.maximum(np.abs(weight).max(axis=1), np.float32(1e-12)) / np.float32(127)
        codes = np.rint(weight / scales[:, None]).astype(np.int8)
        offset = None if bias is None else torch.from_numpy(np.asarray(bias, np.float32))
        with warnings.catch_warnings():
            # PyTorch means to drop its own quantised tensors some day; floats take over then.
            warnings.simplefilter("ignore", UserWarning)
            quantised = torch._make_per_channel_quantized_tensor(
                torch.from_numpy(codes),
                torch.from_numpy(scales.astype(np.float64)),
                torch.zeros(len(scales), dtype=torch.long),
                0,
            )
            self._packed: Any = torch.ops.quantized.linear_prepack(quantised, offset)

    def __call__(self, rows: Floats) -> Floats:
        product = self._product(self._from_numpy(np.ascontiguousarray(rows)), self._packed, True)
        return np.asarray(product.numpy(), dtype=np.float32)


def linear_layer(weight: Floats, bias: Floats | None = None) -> LinearLayer:
    """The faster of the two that can run here."""
    try:
        return Int8Linear(weight, bias)
    except (ImportError, AttributeError, RuntimeError):
        return FloatLinear(weight, bias)
