"""Writes trained heads as the source ``medusa`` reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.sources.medusa_file import VERSION
from dspark.training.medusa_model import RANK, MedusaModel
from dspark.training.weights_file import write_network


def write_weights(
    path: Path,
    model: MedusaModel,
    token_ids: NDArray[np.int64],
    temperatures: NDArray[np.float32],
    target_digest: str,
) -> None:
    """As ``write_network`` does, with what the source checks in the metadata."""
    tensors = {
        "blocks.weight": model.blocks.weight,
        "blocks.bias": model.blocks.bias,
        "markov.first": model.markov_first,
        "markov.second": model.markov_second,
    }
    metadata = {
        "version": VERSION,
        "target_digest": target_digest,
        "num_heads": str(model.num_heads),
        "rank": str(RANK),
        "hidden_size": str(model.head.shape[1]),
    }
    write_network(path, tensors, token_ids, temperatures, metadata)
