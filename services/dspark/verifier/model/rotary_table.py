"""Rotary embeddings of positions, computed once in pieces of fixed size."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch

_PIECE = 1024


class RotaryTable:
    """cos and sin of every position so far, for each layer type of the model.

    Vectorised cosines can differ in the last bit between a vector's body and its tail, so a
    position's values must not depend on which other positions are in the pass.
    """

    def __init__(self, rotary: torch.nn.Module, layer_types: Sequence[str | None]) -> None:
        """``layer_types`` are the kinds whose tables differ; (None,) if there is one kind."""
        self._rotary = rotary
        self._layer_types = list(layer_types)
        self._takes_layer_type = "layer_type" in inspect.signature(rotary.forward).parameters
        self._cos: list[torch.Tensor] = [torch.empty(0) for _ in layer_types]
        self._sin: list[torch.Tensor] = [torch.empty(0) for _ in layer_types]
        self._length = 0
        self._grow(1)

    @property
    def rotary_dim(self) -> int:
        return self._cos[0].shape[1]

    def at(self, positions: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """cos and sin [rows, rotary_dim], float32, for each layer type."""
        self._grow(int(positions.max()) + 1)
        return [
            (cos.index_select(0, positions), sin.index_select(0, positions))
            for cos, sin in zip(self._cos, self._sin, strict=True)
        ]

    def _grow(self, length: int) -> None:
        while self._length < length:
            positions = torch.arange(self._length, self._length + _PIECE)[None]
            for index, layer_type in enumerate(self._layer_types):
                cos, sin = self._compute(positions, layer_type)
                self._cos[index] = torch.cat([self._cos[index].view(-1, cos.shape[-1]), cos])
                self._sin[index] = torch.cat([self._sin[index].view(-1, sin.shape[-1]), sin])
            self._length += _PIECE

    def _compute(
        self, positions: torch.Tensor, layer_type: str | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        like = torch.empty(0, dtype=torch.float32)
        extra = {"layer_type": layer_type} if self._takes_layer_type else {}
        with torch.inference_mode():
            cos, sin = self._rotary(like, position_ids=positions, **extra)
        return cos[0].contiguous(), sin[0].contiguous()
