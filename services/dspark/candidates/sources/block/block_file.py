"""Reads the weights of the source ``block``.

The file has the tensors of the network by their names, ``markov.first`` [V' + 1, rank] and
``markov.second`` [V', rank], ``token_ids`` int64 [V'] and ``temperatures`` [num_slots], and in its
metadata the version, the target's digest, the layers of the features and the network's sizes. The
target's matrices are read from the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch

from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.safetensors_file import SafetensorsFile
from dspark.candidates.served_linear import served
from dspark.candidates.sources.block.drafter import BlockDrafter
from dspark.candidates.sources.block.network import BlockNetwork, BlockSizes
from dspark.candidates.sources.draft_heads import MarkovBias, TokenIds
from dspark.candidates.target_matrices import TargetMatrices

VERSION = "1"


def read_drafter(weights: LearnedWeights, model_dir: Path) -> BlockDrafter:
    """Raises ValueError for a file that is damaged or fits another target, OSError."""
    file = SafetensorsFile(weights.path)
    weights.check(file.metadata.get("target_digest", "unknown"))
    target = TargetMatrices(model_dir)
    sizes, layers = _sizes(file)
    if sizes.hidden_size != target.hidden_size:
        raise ValueError(f"{file.path} was made for a model of another size")
    token_ids = _token_ids(file, target.vocab_size)
    _check_shapes(file, {"temperatures": (sizes.num_slots,)})
    network, markov = _network(file, sizes), _markov(file, token_ids)
    head = torch.nn.Linear(target.hidden_size, len(token_ids), bias=False)
    head.weight.data = torch.from_numpy(target.head_rows(token_ids))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts = served(torch.nn.ModuleDict({"network": network, "head": head}), device)
    temperatures = file.temperatures("temperatures")
    return BlockDrafter(
        network, parts.get_submodule("head"), target, token_ids, markov, temperatures, layers
    )


def _sizes(file: SafetensorsFile) -> tuple[BlockSizes, tuple[int, ...]]:
    """Of the network, and the layers of its features."""
    known = file.metadata
    try:
        if known["version"] != VERSION:
            raise ValueError(f"version {known['version']}")
        sizes = BlockSizes(**{field.name: int(known[field.name]) for field in fields(BlockSizes)})
        layers = tuple(int(layer) for layer in known["layers"].split(","))
        if list(layers) != sorted(set(layers)) or layers[0] < 0:
            raise ValueError(f"layers {layers}")
        if len(layers) != sizes.num_features:
            raise ValueError(f"{len(layers)} layers for {sizes.num_features} features")
    except (KeyError, ValueError) as error:
        raise ValueError(f"{file.path} is damaged: its metadata: {error}") from error
    return sizes, layers


def _token_ids(file: SafetensorsFile, vocab_size: int) -> TokenIds:
    token_ids = file.raw("token_ids").astype(np.int64)
    if len(token_ids) == 0 or token_ids.min() < 0 or token_ids.max() >= vocab_size:
        raise ValueError(f"{file.path} is damaged: its vocabulary is not the target's")
    return token_ids


def _network(file: SafetensorsFile, sizes: BlockSizes) -> BlockNetwork:
    # Memory is for what the file has, not for whatever its sizes ask for.
    with torch.device("meta"):
        network = BlockNetwork(sizes)
    wanted = network.state_dict()
    _check_shapes(file, {name: tuple(tensor.shape) for name, tensor in wanted.items()})
    tensors = {name: torch.from_numpy(file.floats(name)) for name in wanted}
    network.load_state_dict(tensors, assign=True)
    return network


def _markov(file: SafetensorsFile, token_ids: TokenIds) -> MarkovBias:
    rank = file.shape("markov.second")[-1]
    _check_shapes(
        file,
        {"markov.first": (len(token_ids) + 1, rank), "markov.second": (len(token_ids), rank)},
    )
    rows = {int(token_id): row for row, token_id in enumerate(token_ids)}
    return MarkovBias(file.floats("markov.first"), file.floats("markov.second"), rows)


def _check_shapes(file: SafetensorsFile, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if file.shape(name) != shape:
            raise ValueError(f"{file.path} is damaged: {name} is {file.shape(name)}, not {shape}")
