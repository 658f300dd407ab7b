"""Writes a trained network as the source ``block`` reads it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from dspark.candidates.sources.block.block_file import VERSION
from dspark.training.block_model import BlockModel


def write_weights(
    path: Path,
    model: BlockModel,
    token_ids: NDArray[np.int64],
    temperatures: NDArray[np.float32],
    target_digest: str,
    layers: tuple[int, ...],
) -> None:
    """Floating-point tensors as bfloat16; the file appears whole or not at all."""
    tensors = {
        **model.network.state_dict(),
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
        "layers": ",".join(map(str, layers)),
        **{name: str(size) for name, size in asdict(model.network.sizes).items()},
    }
    partial = path.with_suffix(".partial")
    save_file(halves | numbers, partial, metadata)
    # The library makes files that others cannot read; a service may run as another user.
    partial.chmod(0o644)
    os.replace(partial, path)
