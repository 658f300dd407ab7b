"""Heads to start a training from: weights that were trained before, for the same target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.safetensors_file import SafetensorsFile
from dspark.candidates.sources.medusa_file import read_heads
from dspark.candidates.target_matrices import TargetMatrices
from dspark.training.medusa_model import NUM_HEADS, RANK, MedusaModel


def trained_heads(
    path: Path, model_dir: Path, target_digest: str
) -> tuple[MedusaModel, NDArray[np.int64]]:
    """The heads with their draft vocabulary, ready to learn on.

    Raises ValueError for a file that is damaged, of another layout or made for another target,
    OSError.
    """
    read_heads(LearnedWeights(path, target_digest), model_dir)
    file = SafetensorsFile(path)
    if "blocks.weight" not in file:
        raise ValueError(f"{path} has heads of another layout; there is nothing to start from")
    sizes = file.shape("temperatures")[0], file.shape("markov.second")[1]
    if sizes != (NUM_HEADS, RANK):
        raise ValueError(
            f"{path} has {sizes[0]} heads of rank {sizes[1]}, not {NUM_HEADS} of {RANK}"
        )
    token_ids = file.raw("token_ids").astype(np.int64)
    model = MedusaModel(TargetMatrices(model_dir), token_ids)
    tensors = {
        "blocks.weight": model.blocks.weight,
        "blocks.bias": model.blocks.bias,
        "markov.first": model.markov_first,
        "markov.second": model.markov_second,
    }
    for name, tensor in tensors.items():
        _copy(file, name, tensor)
    return model, token_ids


def _copy(file: SafetensorsFile, name: str, tensor: Tensor) -> None:
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(file.floats(name)))
