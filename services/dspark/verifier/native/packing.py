"""Weights packed for the kernels (layout: linear.h)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch

from dspark.verifier.native.library import Team, load_library
from dspark.verifier.native.structs import PackedLinearStruct

_HALF_COLUMNS = 16
_PANEL_COLUMNS = 2 * _HALF_COLUMNS


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
    is_bf16 = int(weight.dtype == torch.bfloat16)
    library = load_library()
    packed = torch.empty(library.dspark_packed_bytes(n, k, is_bf16), dtype=torch.uint8)
    library.dspark_advise_huge_pages(packed.data_ptr(), packed.nbytes)
    library.dspark_pack(weight.data_ptr(), n, k, is_bf16, packed.data_ptr())
    padded_bias = None
    if bias is not None:
        padded_bias = torch.zeros(-(-n // _PANEL_COLUMNS) * _PANEL_COLUMNS)
        padded_bias[:n] = bias.detach().float()
    struct = PackedLinearStruct(
        packed.data_ptr(),
        padded_bias.data_ptr() if padded_bias is not None else None,
        n,
        k,
        is_bf16,
    )
    return PackedLinear(struct, (packed,) if padded_bias is None else (packed, padded_bias))


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
    if struct.is_bf16 and struct.k % 2:
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
