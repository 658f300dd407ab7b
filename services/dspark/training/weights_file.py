"""Writes the weights of a trained network as candidates read them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor


def write_network(
    path: Path,
    tensors: Mapping[str, Tensor],
    token_ids: NDArray[np.int64],
    temperatures: NDArray[np.float32],
    metadata: dict[str, str],
) -> None:
    """Floating-point ``tensors`` as bfloat16, the draft vocabulary and a temperature for each place
    ahead; the file appears whole or not at all.
    """
    halves = {
        name: tensor.detach().cpu().to(torch.bfloat16).contiguous()
        for name, tensor in tensors.items()
    }
    numbers = {
        "token_ids": torch.from_numpy(token_ids),
        "temperatures": torch.from_numpy(temperatures),
    }
    partial = path.with_suffix(".partial")
    save_file(halves | numbers, partial, metadata)
    # The library makes files that others cannot read; a service may run as another user.
    partial.chmod(0o644)
    os.replace(partial, path)
