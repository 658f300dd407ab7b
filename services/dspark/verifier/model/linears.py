"""Linear layers whose rows do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from dspark.verifier.model.weight_format import WeightFormat
from dspark.verifier.native.library import Team
from dspark.verifier.native.packing import linear


@dataclass
class RowTiles:
    """Numbers of rows that matmuls run with, ascending; empty means any number at once."""

    sizes: tuple[int, ...] = ()

    def split(self, num_rows: int) -> list[int]:
        """Tiles that cover the rows, largest first; the last may reach past the end."""
        tiles: list[int] = []
        left = num_rows
        while left > 0:
            fitting = [size for size in self.sizes if size <= left]
            tiles.append(fitting[-1] if fitting else self.sizes[0])
            left -= tiles[-1]
        return tiles


class RowTiledLinear(nn.Module):
    """A linear layer in tiles of rows: matmul kernels choose their blocking by row count."""

    def __init__(self, original: nn.Linear, form: WeightFormat, tiles: RowTiles) -> None:
        super().__init__()
        self.weight = _parameter(form.values(original.weight).to(original.weight.dtype))
        self.bias = original.bias
        self.tiles = tiles

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if not self.tiles.sizes:
            return functional.linear(rows, self.weight, self.bias)
        flat = rows.reshape(-1, rows.shape[-1])
        parts, first = [], 0
        for size in self.tiles.split(flat.shape[0]):
            part = flat[first : first + size]
            if missing := size - part.shape[0]:
                part = functional.pad(part, (0, 0, 0, missing))
            parts.append(functional.linear(part, self.weight, self.bias))
            first += size
        result = parts[0] if len(parts) == 1 else torch.cat(parts)
        return result[: flat.shape[0]].view(*rows.shape[:-1], -1)


class NativeLinear(nn.Module):
    """A linear layer run by the CPU kernels: packed weights, float32 activations."""

    def __init__(self, original: nn.Linear, form: WeightFormat, team: Team) -> None:
        super().__init__()
        self._packed = form.pack(original.weight, original.bias)
        self._team = team

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        flat = rows.reshape(-1, rows.shape[-1])
        return linear(self._team, self._packed, flat).view(*rows.shape[:-1], -1)


def _parameter(values: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(values, requires_grad=False)


def replace_linears(
    model: Any, form: WeightFormat, make: Callable[[nn.Linear, WeightFormat], nn.Module]
) -> None:
    """Put ``make(linear, its format)`` in the place of each nn.Linear, one by one, freeing it."""
    head = model.get_output_embeddings()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, make(child, form.of_head if child is head else form))
