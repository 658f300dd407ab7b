"""Writes trained heads as the source ``medusa`` reads them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from dspark.candidates.sources.medusa_file import VERSION
from dspark.training.medusa_model import RANK, MedusaModel


def write_weights(
    path: Path,
    model: MedusaModel,
    token_ids: NDArray[np.int64],
    temperatures: NDArray[np.float32],
    target_digest: str,
) -> None:
    """Floating-point tensors as bfloat16; the file appears whole or not at all."""
    tensors = {
        "blocks.weight": model.blocks.weight,
        "blocks.bias": model.blocks.bias,
        "markov.first": model.markov_first,
        "markov.second": model.markov_second,
    }
    halves = {
        name: tensor.detach().cpu().to(torch.bfloat16).contiguous()
        for name, tensor in tensors.items()
    }
    numbers = {
        "token_ids": torch.from_numpy(token_ids),
        "temperatures": torch.from_numpy(temperatures),
    }
    metadata = {
        "version": VERSION,
        "target_digest": target_digest,
        "num_heads": str(model.num_heads),
        "rank": str(RANK),
        "hidden_size": str(model.head.shape[1]),
    }
    partial = path.with_suffix(".partial")
    save_file(halves | numbers, partial, metadata)
    # The library makes files that others cannot read; a service may run as another user.
    partial.chmod(0o644)
    os.replace(partial, path)
