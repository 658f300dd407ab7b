"""Weights as 8-bit codes: how near to the weights they are."""

from __future__ import annotations

import pytest
import torch

from dspark.verifier.config import WEIGHT_DTYPES
from dspark.verifier.model.quantization import GROUP, quantize_int8
from dspark.verifier.model.weight_format import WEIGHT_FORMATS, load_dtype, weight_format


@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (5, 65), (7, 200)])
def test_no_weight_is_off_by_more_than_half_a_step(shape: tuple[int, int]) -> None:
    weight = torch.randn(shape) * 10.0 ** torch.randint(-6, 6, (shape[0], 1))
    quantized = quantize_int8(weight)
    assert quantized.codes.shape == shape
    assert quantized.scales.shape == (shape[0], -(-shape[1] // GROUP))
    steps = quantized.scales.float().repeat_interleave(GROUP, dim=1)[:, : shape[1]]
    assert ((quantized.dequantized() - weight).abs() <= 0.5001 * steps).all()


def test_groups_of_zeros_stay_zero() -> None:
    weight = torch.randn(2, 128)
    weight[:, :64] = 0
    assert not quantize_int8(weight).dequantized()[:, :64].any()


def test_large_weights_are_quantised_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(10, 70)
    whole = quantize_int8(weight)
    monkeypatch.setattr("dspark.verifier.model.quantization._CHUNK_ROWS", 3)
    assert torch.equal(quantize_int8(weight).codes, whole.codes)


def test_formats_by_name() -> None:
    assert WEIGHT_DTYPES == ("auto", *WEIGHT_FORMATS)
    assert load_dtype("auto") is load_dtype("int8") is None
    assert load_dtype("fp16") is torch.float16
    assert weight_format("auto", torch.bfloat16).name == "bf16"
    assert weight_format("int8", torch.bfloat16).name == "int8"
