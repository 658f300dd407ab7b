"""Weights as 8-bit or 4-bit codes with a scale for each row and group of columns."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dspark.verifier.native.packing import GROUP_COLUMNS as GROUP
from dspark.verifier.native.packing import GROUP_COLUMNS_INT4 as GROUP4

MAX_CODE = 127
MAX_CODE4 = 15
_CHUNK_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Int8Weight:
    """A weight [n, k]: codes int8 [n, k] and scales bfloat16 [n, ceil(k / 64)]."""

    codes: torch.Tensor
    scales: torch.Tensor

    def dequantized(self) -> torch.Tensor:
        """The weight that the codes stand for, float32 [n, k]; exact in float32."""
        scales = self.scales.float().repeat_interleave(GROUP, dim=1)
        return self.codes.float() * scales[:, : self.codes.shape[1]]


@dataclass(frozen=True, slots=True)
class Int4Weight:
    """A weight [n, k]: codes uint8 [n, k] of 0 to 15, and for each group of 32 columns its scale
    and its smallest value, float16 [n, ceil(k / 32)]: the layout that GGUF calls Q4_1.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    smallest: torch.Tensor

    def dequantized(self) -> torch.Tensor:
        """The weight that the codes stand for, float32 [n, k]."""
        k = self.codes.shape[1]
        scales, smallest = (
            part.float().repeat_interleave(GROUP4, dim=1)[:, :k]
            for part in (self.scales, self.smallest)
        )
        return self.codes.float() * scales + smallest


def quantize_int8(weight: torch.Tensor) -> Int8Weight:
    """Round each group of 64 to multiples of its largest magnitude / 127, symmetric around 0.

    The scale is rounded up to bfloat16 before the codes are made, so that nothing is clamped.
    """
    pieces = [_quantize(piece) for piece in torch.split(weight.detach(), _CHUNK_ROWS)]
    return Int8Weight(torch.cat([codes for codes, _ in pieces]), torch.cat([s for _, s in pieces]))


def quantize_int4(weight: torch.Tensor) -> Int4Weight:
    """Round each group of 32 to 16 values, evenly spaced from its smallest to its largest.

    Weights that come from such groups, as those of a Q4_1 file, get their own codes back.
    """
    pieces = [_quantize4(piece) for piece in torch.split(weight.detach(), _CHUNK_ROWS)]
    codes, scales, smallest = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    return Int4Weight(codes, scales, smallest)


def _quantize4(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    n, k = weight.shape
    missing = -k % GROUP4
    # Padding repeats the last column, so that it widens no group.
    padded = torch.cat((weight, weight[:, -1:].expand(n, missing)), dim=1).float()
    grouped = padded.view(n, -1, GROUP4)
    smallest = grouped.amin(dim=2).half()
    scales = ((grouped.amax(dim=2) - smallest.float()) / MAX_CODE4).half()
    divisors = scales.float().masked_fill(scales == 0, 1.0)[..., None]
    codes = ((grouped - smallest.float()[..., None]) / divisors).round().clamp(0, MAX_CODE4)
    return codes.to(torch.uint8).view(n, -1)[:, :k].contiguous(), scales, smallest


def _quantize(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    n, k = weight.shape
    grouped = torch.nn.functional.pad(weight.float(), (0, -k % GROUP)).view(n, -1, GROUP)
    scales = _round_up(grouped.abs().amax(dim=2) / MAX_CODE)
    divisors = scales.float().masked_fill(scales == 0, 1.0)[..., None]
    codes = (grouped / divisors).round().clamp(-MAX_CODE, MAX_CODE).to(torch.int8)
    return codes.view(n, -1)[:, :k].contiguous(), scales


def _round_up(values: torch.Tensor) -> torch.Tensor:
    """The bfloat16 at or above each float32 that is 0 or more."""
    bits = values.view(torch.int32)
    return ((bits + 0xFFFF) & ~0xFFFF).view(torch.float32).bfloat16()
