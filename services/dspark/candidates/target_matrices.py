"""Rows of the target's embedding and LM head, read where the target lies on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.safetensors_file import SafetensorsFile

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


class TargetMatrices:
    """Both matrices of a Hugging Face directory; without a head of its own, the embedding is tied.

    Raises ValueError for a directory that has no matrices by the usual names.
    """

    def __init__(self, directory: Path) -> None:
        found: dict[str, SafetensorsFile] = {}
        for path in sorted(directory.glob("*.safetensors")):
            file = SafetensorsFile(path)
            found |= {name: file for name in (EMBEDDING, HEAD) if name in file}
        if EMBEDDING not in found:
            raise ValueError(f"{directory} has no tensor {EMBEDDING}; the source cannot run")
        self._embedding = found[EMBEDDING]
        self._head = found.get(HEAD, self._embedding)
        self._head_name = HEAD if HEAD in found else EMBEDDING
        shape = self._embedding.shape(EMBEDDING)
        if len(shape) != 2 or self._head.shape(self._head_name) != shape:
            raise ValueError(f"{directory}: {EMBEDDING} and {HEAD} are not of one shape")
        self.vocab_size, self.hidden_size = shape

    def embedding_rows(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """[num_ids, hidden_size]"""
        return self._embedding.floats(EMBEDDING, token_ids)

    def head_rows(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """[num_ids, hidden_size]"""
        return self._head.floats(self._head_name, token_ids)


def rms_normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row of [num_rows, hidden_size] divided by its root mean square."""
    mean_squares = np.mean(rows * rows, axis=-1, keepdims=True, dtype=np.float32)
    return np.asarray(rows / np.sqrt(mean_squares + np.float32(1e-6)), dtype=np.float32)
