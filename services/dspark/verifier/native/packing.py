"""Weights packed for the kernels (layout: weights.h)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum

import torch

from dspark.verifier.native.library import Team, load_library
from dspark.verifier.native.structs import PackedLinearStruct

_HALF_COLUMNS = 16
_PANEL_COLUMNS = 2 * _HALF_COLUMNS
GROUP_COLUMNS = 64  # of k, that share a scale
GROUP_COLUMNS_INT4 = 32


class Format(IntEnum):
    """What a packed weight is made of."""

    FP32 = 0
    BF16 = 1
    INT8 = 2
    INT4 = 3


@dataclass(frozen=True, slots=True)
class PackedLinear:
    """A packed weight [n, k] with optional bias; keeps the memory behind ``struct`` alive."""

    struct: PackedLinearStruct
    memory: tuple[torch.Tensor, ...]

    @property
    def num_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.memory)


def pack(weight: torch.Tensor, bias: torch.Tensor | None = None) -> PackedLinear:
    """Pack weight [n, k], bfloat16 or float32 (anything else becomes float32)."""
    if weight.dtype != torch.bfloat16:
        weight = weight.float()
    weight = weight.detach().contiguous()
    n, k = weight.shape
    form = Format.BF16 if weight.dtype == torch.bfloat16 else Format.FP32
    packed = _allocate(n, k, form)
    load_library().dspark_pack(weight.data_ptr(), n, k, form, packed.data_ptr())
    return _packed_linear(packed, bias, n, k, form)


def pack_int8(
    codes: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None = None
) -> PackedLinear:
    """Pack codes int8 [n, k] with scales bfloat16 [n, ceil(k / 64)], one for 64 codes of a row."""
    n, k = codes.shape
    if codes.dtype != torch.int8 or scales.dtype != torch.bfloat16:
        raise ValueError(f"codes and scales are {codes.dtype} and {scales.dtype}")
    if scales.shape != (n, -(-k // GROUP_COLUMNS)):
        raise ValueError(f"scales have shape {tuple(scales.shape)} for codes {tuple(codes.shape)}")
    codes, scales = codes.contiguous(), scales.contiguous()
    packed = _allocate(n, k, Format.INT8)
    load_library().dspark_pack_int8(codes.data_ptr(), scales.data_ptr(), n, k, packed.data_ptr())
    return _packed_linear(packed, bias, n, k, Format.INT8)


def pack_int4(
    codes: torch.Tensor,
    scales: torch.Tensor,
    smallest: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> PackedLinear:
    """Pack codes uint8 [n, k] of 0 to 15, with scales and smallest float16 [n, ceil(k / 32)]."""
    n, k = codes.shape
    if codes.dtype != torch.uint8 or not scales.dtype == smallest.dtype == torch.float16:
        raise ValueError(f"codes and scales are {codes.dtype}, {scales.dtype}, {smallest.dtype}")
    if not scales.shape == smallest.shape == (n, -(-k // GROUP_COLUMNS_INT4)):
        raise ValueError(f"scales have shape {tuple(scales.shape)} for codes {tuple(codes.shape)}")
    codes, scales, smallest = codes.contiguous(), scales.contiguous(), smallest.contiguous()
    packed = _allocate(n, k, Format.INT4)
    load_library().dspark_pack_int4(
        codes.data_ptr(), scales.data_ptr(), smallest.data_ptr(), n, k, packed.data_ptr()
    )
    return _packed_linear(packed, bias, n, k, Format.INT4)


def _allocate(n: int, k: int, form: Format) -> torch.Tensor:
    library = load_library()
    packed = torch.empty(library.dspark_packed_bytes(n, k, form), dtype=torch.uint8)
    library.dspark_advise_huge_pages(packed.data_ptr(), packed.nbytes)
    return packed


def _packed_linear(
    packed: torch.Tensor, bias: torch.Tensor | None, n: int, k: int, form: Format
) -> PackedLinear:
    if bias is None:
        struct = PackedLinearStruct(packed.data_ptr(), None, n, k, form)
        return PackedLinear(struct, (packed,))
    padded = torch.zeros(-(-n // _PANEL_COLUMNS) * _PANEL_COLUMNS)
    padded[:n] = bias.detach().float()
    struct = PackedLinearStruct(packed.data_ptr(), padded.data_ptr(), n, k, form)
    return PackedLinear(struct, (packed, padded))


def interleave_gate_up(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Rows of gate and up [intermediate, ...] in turns of 16, zero-padded to whole turns."""
    padding = -gate.shape[0] % _HALF_COLUMNS
    if padding:
        zeros = gate.new_zeros((padding, *gate.shape[1:]))
        gate, up = torch.cat((gate, zeros)), torch.cat((up, zeros))
    turns = (-1, _HALF_COLUMNS, *gate.shape[1:])
    return torch.stack((gate.reshape(turns), up.reshape(turns)), dim=1).flatten(0, 2)


def linear(team: Team, packed: PackedLinear, rows: torch.Tensor) -> torch.Tensor:
    """Apply to float32 rows [num_rows, k]; returns float32 [num_rows, n]."""
    struct = packed.struct
    if rows.dim() != 2 or rows.shape[1] != struct.k:
        raise ValueError(f"rows have shape {tuple(rows.shape)}, the weight takes [*, {struct.k}]")
    if struct.format == Format.BF16 and struct.k % 2:
        rows = torch.nn.functional.pad(rows, (0, 1))
    rows = rows.float().contiguous()
    result = torch.empty(rows.shape[0], struct.n)
    if rows.shape[0]:
        team.library.dspark_linear(
            team.handle,
            ctypes.byref(struct),
            rows.data_ptr(),
            rows.shape[1],
            rows.shape[0],
            result.data_ptr(),
        )
    return result
