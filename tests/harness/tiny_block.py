"""A tiny random network of the source ``block``, and hidden states for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from dspark.candidates.sources.block.drafter import BlockDrafter
from dspark.candidates.sources.block.network import BlockNetwork, BlockSizes
from dspark.candidates.sources.draft_heads import MarkovBias
from dspark.candidates.target_matrices import TargetMatrices
from dspark.features import Features

VOCAB, HIDDEN, RANK, WINDOW = 20, 8, 3, 5
LAYERS = (0, 1)
IDS = np.array([1, 4, 5, 9, 11, 12, 19])
SIZES = BlockSizes(
    hidden_size=HIDDEN,
    num_features=len(LAYERS),
    num_heads=4,
    num_kv_heads=2,
    head_size=4,
    inner_size=12,
    num_slots=3,
    window=WINDOW,
)


def random_tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def save_target(folder: Path, seed: int = 0) -> Path:
    """A directory with the one matrix of a target that the source reads."""
    folder.mkdir(parents=True)
    matrix = random_tensor(VOCAB, HIDDEN, seed=seed)
    save_file({"model.embed_tokens.weight": matrix}, folder / "model.safetensors")
    return folder


def tiny_network(seed: int = 0) -> BlockNetwork:
    torch.manual_seed(seed)
    return BlockNetwork(SIZES).requires_grad_(False)


def tiny_drafter(folder: Path) -> BlockDrafter:
    """In float32, so that a batch may be compared with its requests alone."""
    target = TargetMatrices(folder if folder.exists() else save_target(folder))
    head = torch.nn.Linear(HIDDEN, len(IDS), bias=False).requires_grad_(False)
    head.weight.data = torch.from_numpy(target.head_rows(IDS))
    first = random_tensor(len(IDS) + 1, RANK, seed=1).numpy()
    second = random_tensor(len(IDS), RANK, seed=2).numpy()
    rows = {int(token_id): row for row, token_id in enumerate(IDS)}
    return BlockDrafter(
        network=tiny_network(),
        head=head,
        target=target,
        token_ids=IDS,
        markov=MarkovBias(first, second, rows),
        temperatures=np.array([1.0, 1.5, 2.0], dtype=np.float32),
        layers=LAYERS,
    )


def random_states(num_tokens: int, seed: int = 0) -> NDArray[np.uint16]:
    """bfloat16 [num_tokens, num_layers, hidden_size]"""
    values = random_tensor(num_tokens, len(LAYERS), HIDDEN, seed=seed).numpy()
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def features_of(states: NDArray[np.uint16], positions: Sequence[int]) -> Features:
    """Those at consecutive ``positions``."""
    rows = np.ascontiguousarray(states[positions[0] : positions[-1] + 1])
    num_tokens, num_layers, hidden_size = rows.shape
    return Features(positions[0], (num_tokens, num_layers, hidden_size), rows.tobytes())
