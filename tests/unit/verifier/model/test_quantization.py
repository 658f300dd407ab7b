"""Weights as 8-bit and 4-bit codes: how near to the weights they are."""

from __future__ import annotations

import pytest
import torch

from dspark.verifier.config import WEIGHT_DTYPES
from dspark.verifier.model.quantization import GROUP, GROUP4, quantize_int4, quantize_int8
from dspark.verifier.model.weight_format import WEIGHT_FORMATS, load_dtype, weight_format


@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (5, 65), (7, 200)])
def test_no_weight_is_off_by_more_than_half_a_step(shape: tuple[int, int]) -> None:
    weight = torch.randn(shape) * 10.0 ** torch.randint(-6, 6, (shape[0], 1))
    quantized = quantize_int8(weight)
    assert quantized.codes.shape == shape
    assert quantized.scales.shape == (shape[0], -(-shape[1] // GROUP))
    steps = quantized.scales.float().repeat_interleave(GROUP, dim=1)[:, : shape[1]]
    assert ((quantized.dequantized() - weight).abs() <= 0.5001 * steps).all()


@pytest.mark.parametrize("shape", [(1, 1), (3, 32), (5, 33), (7, 200)])
def test_no_weight_is_off_by_more_than_half_a_step_of_int4(shape: tuple[int, int]) -> None:
    weight = torch.randn(shape) * 10.0 ** torch.randint(-2, 2, (shape[0], 1))
    quantized = quantize_int4(weight)
    assert quantized.codes.shape == shape
    assert quantized.scales.shape == (shape[0], -(-shape[1] // GROUP4))
    steps = quantized.scales.float().repeat_interleave(GROUP4, dim=1)[:, : shape[1]]
    largest = weight.abs().amax(dim=1, keepdim=True)
    # Scale and smallest value are themselves rounded to 11 bits.
    assert ((quantized.dequantized() - weight).abs() <= 0.5 * steps + largest * 2**-9).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_sixteen_values_get_their_codes_back(dtype: torch.dtype) -> None:
    codes = torch.randint(16, (50, 64))
    codes[:, ::32], codes[:, 1::32] = 0, 15
    scales = (torch.rand(50, 1) * 0.1 + 0.01).half().float()
    weight = (codes * scales - 7.3 * scales.mean()).to(dtype)
    assert torch.equal(quantize_int4(weight).codes, codes.to(torch.uint8))


def test_groups_of_zeros_stay_zero() -> None:
    weight = torch.randn(2, 128)
    weight[:, :64] = 0
    assert not quantize_int8(weight).dequantized()[:, :64].any()
    assert not quantize_int4(weight).dequantized()[:, :64].any()


def test_large_weights_are_quantised_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(10, 70)
    whole = quantize_int8(weight)
    monkeypatch.setattr("dspark.verifier.model.quantization._CHUNK_ROWS", 3)
    assert torch.equal(quantize_int8(weight).codes, whole.codes)
    assert torch.equal(quantize_int4(weight[:3]).codes, quantize_int4(weight).codes[:3])


def test_formats_by_name() -> None:
    assert WEIGHT_DTYPES == ("auto", *WEIGHT_FORMATS)
    assert load_dtype("auto") is load_dtype("int8") is None
    assert load_dtype("fp16") is torch.float16
    assert weight_format("auto", torch.bfloat16).name == "bf16"
    assert weight_format("int8", torch.bfloat16).name == "int8"
    assert weight_format("int4", torch.bfloat16).of_head.name == "int8"
    assert weight_format("bf16", torch.bfloat16).of_head.name == "bf16"
