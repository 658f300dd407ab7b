"""Writes a trained network as the source ``block`` reads it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.sources.block.block_file import VERSION
from dspark.training.block_model import BlockModel
from dspark.training.weights_file import write_network


def write_weights(
    path: Path,
    model: BlockModel,
    token_ids: NDArray[np.int64],
    temperatures: NDArray[np.float32],
    target_digest: str,
    layers: tuple[int, ...],
) -> None:
    """As ``write_network`` does, with what the source checks in the metadata."""
    tensors = {
        **model.network.state_dict(),
        "markov.first": model.markov_first,
        "markov.second": model.markov_second,
    }
    metadata = {
        "version": VERSION,
        "target_digest": target_digest,
        "layers": ",".join(map(str, layers)),
        **{name: str(size) for name, size in asdict(model.network.sizes).items()},
    }
    write_network(path, tensors, token_ids, temperatures, metadata)
