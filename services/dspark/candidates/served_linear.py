"""Linear layers as they are served: weights in the fewest bytes that the device multiplies fast.

A product with a handful of rows takes as long as its weights take to be read.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional


class Int8Linear(nn.Module):
    """Weights in int8 with a scale for each output, rows quantised as they come (FBGEMM)."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """``weight`` float32 [num_outputs, num_inputs], ``bias`` [num_outputs]."""
        super().__init__()
        scales = weight.abs().amax(dim=1).clamp_min(1e-12).double() / 127
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        with warnings.catch_warnings():
            # No other type is taken by the only product that is fast on any x86 processor. PyTorch
            # means to drop it some day.
            warnings.filterwarnings("ignore", "torch.quantize_per", UserWarning)
            quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
            self._packed = torch.ops.quantized.linear_prepack(quantised, bias)

    def forward(self, rows: Tensor) -> Tensor:
        """float32 [..., num_outputs] of float32 ``rows`` [..., num_inputs]."""
        # 7 bits a value: pairs of full products would not fit the 16 bits in which they are added.
        product: Tensor = torch.ops.quantized.linear_dynamic(rows, self._packed, True)
        return product


class Bfloat16Linear(nn.Module):
    """Weights and products in bfloat16."""

    def __init__(self, weight: Tensor) -> None:
        """``weight`` float32 [num_outputs, num_inputs]."""
        super().__init__()
        self.weight: Tensor
        self.register_buffer("weight", weight.to(torch.bfloat16), False)

    def forward(self, rows: Tensor) -> Tensor:
        """float32 [..., num_outputs] of float32 ``rows`` [..., num_inputs]."""
        return functional.linear(rows.to(torch.bfloat16), self.weight).float()


def served(network: nn.Module, device: torch.device) -> nn.Module:
    """``network`` on ``device``, its linear layers replaced; for inference alone."""
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, _served_layer(child, device))
    return network.to(device).requires_grad_(False)


def _served_layer(layer: nn.Linear, device: torch.device) -> nn.Module:
    weight, bias = layer.weight.detach(), layer.bias
    if device.type != "cpu":
        return layer if bias is not None else Bfloat16Linear(weight)
    try:
        return Int8Linear(weight, None if bias is None else bias.detach())
    except (AttributeError, RuntimeError):
        return layer
