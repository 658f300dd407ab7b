"""How linear layers hold their weights: the choices of ``--weight-dtype``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from dspark.verifier.model.quantization import quantize_int4, quantize_int8
from dspark.verifier.native.packing import PackedLinear, pack, pack_int4, pack_int8


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """``values`` gives the weight [n, k] that a layer computes with, from the one loaded.

    ``pack`` makes it ready for the CPU kernels, with a bias [n] or None. ``load_dtype`` None means
    as stored, bfloat16 if that is no float32. The head's rows are what a token is chosen by, so it
    may have a finer format, ``head_name``.
    """

    name: str
    activations: str
    load_dtype: torch.dtype | None
    values: Callable[[torch.Tensor], torch.Tensor]
    pack: Callable[[torch.Tensor, torch.Tensor | None], PackedLinear]
    head_name: str = ""

    @property
    def of_head(self) -> WeightFormat:
        """The format of the output embedding."""
        return WEIGHT_FORMATS[self.head_name] if self.head_name else self


def _as_loaded(weight: torch.Tensor) -> torch.Tensor:
    return weight


def _int8_values(weight: torch.Tensor) -> torch.Tensor:
    return quantize_int8(weight).dequantized()


def _pack_int8(weight: torch.Tensor, bias: torch.Tensor | None) -> PackedLinear:
    quantized = quantize_int8(weight)
    return pack_int8(quantized.codes, quantized.scales, bias)


def _int4_values(weight: torch.Tensor) -> torch.Tensor:
    return quantize_int4(weight).dequantized()


def _pack_int4(weight: torch.Tensor, bias: torch.Tensor | None) -> PackedLinear:
    quantized = quantize_int4(weight)
    return pack_int4(quantized.codes, quantized.scales, quantized.smallest, bias)


_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
WEIGHT_FORMATS = {
    name: WeightFormat(name, "fp32", dtype, _as_loaded, pack) for name, dtype in _DTYPES.items()
} | {
    "int8": WeightFormat("int8", "int16", None, _int8_values, _pack_int8),
    "int4": WeightFormat("int4", "int16", None, _int4_values, _pack_int4, head_name="int8"),
}


def load_dtype(wanted: str) -> torch.dtype | None:
    """The dtype to load weights in for a choice of ``--weight-dtype``."""
    return WEIGHT_FORMATS[wanted].load_dtype if wanted in WEIGHT_FORMATS else None


def weight_format(wanted: str, loaded: torch.dtype) -> WeightFormat:
    """The format of a choice; ``auto`` is that of the weights as loaded."""
    if wanted in WEIGHT_FORMATS:
        return WEIGHT_FORMATS[wanted]
    return next(form for form in WEIGHT_FORMATS.values() if form.load_dtype == loaded)
