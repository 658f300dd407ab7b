"""Reads the weights of the source ``medusa``: its own file, or one in the layout of Medusa's.

The own file has ``token_ids`` int64 [V'], ``blocks.weight`` [K * H, 2 * H] and ``blocks.bias``
[K * H], ``markov.first`` [V' + 1, rank], ``markov.second`` [V', rank] and ``temperatures`` [K], and
in its metadata the version and the target's digest. The target's matrices are read from the target.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.safetensors_file import SafetensorsFile
from dspark.candidates.sources.draft_heads import AnchoredHeads, DraftHeads, Floats, PlainHeads
from dspark.candidates.target_matrices import TargetMatrices

VERSION = "1"


def read_heads(weights: LearnedWeights, model_dir: Path) -> DraftHeads:
    """Raises ValueError for a file that is damaged or fits another target, OSError."""
    file = SafetensorsFile(weights.path)
    target = TargetMatrices(model_dir)
    heads: DraftHeads
    if "0.0.linear.weight" in file:
        heads = _plain_heads(file)
    else:
        weights.check(file.metadata.get("target_digest", "unknown"))
        heads = _anchored_heads(file, target)
    if (heads.vocab_size, heads.hidden_size) != (target.vocab_size, target.hidden_size):
        raise ValueError(f"{file.path} was made for a model of another size")
    return heads


def _anchored_heads(file: SafetensorsFile, target: TargetMatrices) -> AnchoredHeads:
    if file.metadata.get("version") != VERSION:
        raise ValueError(f"{file.path} is damaged: version {file.metadata.get('version')}")
    token_ids = file.raw("token_ids").astype(np.int64)
    if len(token_ids) == 0 or token_ids.min() < 0 or token_ids.max() >= target.vocab_size:
        raise ValueError(f"{file.path} is damaged: its vocabulary is not the target's")
    num_heads, (_, rank) = file.shape("temperatures")[0], _matrix(file, "markov.second")
    inner = num_heads * target.hidden_size
    for name, shape in {
        "blocks.weight": (inner, 2 * target.hidden_size),
        "blocks.bias": (inner,),
        "markov.first": (len(token_ids) + 1, rank),
        "markov.second": (len(token_ids), rank),
    }.items():
        if file.shape(name) != shape:
            raise ValueError(f"{file.path} is damaged: {name} is {file.shape(name)}, not {shape}")
    return AnchoredHeads(
        target,
        token_ids,
        file.floats("blocks.weight"),
        file.floats("blocks.bias"),
        (file.floats("markov.first"), file.floats("markov.second")),
        file.temperatures("temperatures"),
    )


def _matrix(file: SafetensorsFile, name: str) -> tuple[int, int]:
    shape = file.shape(name)
    if len(shape) != 2:
        raise ValueError(f"{file.path} is damaged: {name} is no matrix")
    return shape[0], shape[1]


def _plain_heads(file: SafetensorsFile) -> PlainHeads:
    """Such files do not say which target they fit; only sizes can be checked."""
    blocks: list[tuple[Floats, Floats]] = []
    projections: list[Floats] = []
    while f"{len(blocks)}.0.linear.weight" in file:
        head = len(blocks)
        if f"{head}.1.linear.weight" in file:
            raise ValueError(f"{file.path}: heads of more than one block are not supported")
        hidden_size = _matrix(file, f"{head}.1.weight")[1]
        weight, offset = f"{head}.0.linear.weight", f"{head}.0.linear.bias"
        if file.shape(weight) != (hidden_size, hidden_size) or file.shape(offset) != (hidden_size,):
            raise ValueError(f"{file.path} is damaged: the sizes of head {head} do not fit")
        blocks.append((file.floats(weight), file.floats(offset)))
        projections.append(file.floats(f"{head}.1.weight"))
    if len({projection.shape for projection in projections}) != 1:
        raise ValueError(f"{file.path} is damaged: its heads are not of one size")
    return PlainHeads(blocks, projections)
