"""One call of the decoder kernels: the rows of a pass, and where their results go."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.verifier.attention.native_backend import native_plan
from dspark.verifier.feature_buffer import FeatureBuffer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.model.rotary_table import RotaryTable
from dspark.verifier.native.structs import DecoderPassStruct
from dspark.verifier.pruning.cut import Rows


class NativePass:
    """A DecoderPassStruct that keeps all it points to alive."""

    def __init__(self, batch: ForwardBatch, embed: Any, rotary: RotaryTable) -> None:
        with torch.inference_mode():
            embeddings = embed(torch.from_numpy(batch.token_ids)).float().contiguous()
            tables = rotary.at(torch.from_numpy(batch.positions))
        plan = native_plan(batch)
        self._logits_rows = np.ascontiguousarray(batch.logits_rows, dtype=np.int64)
        self._memory: list[object] = [embeddings, tables, plan, batch]
        self.struct = DecoderPassStruct(
            rows=batch.num_rows, embeddings=embeddings.data_ptr(), batch=plan.struct
        )
        for index, (cos, sin) in enumerate(tables):
            self.struct.cos[index], self.struct.sin[index] = cos.data_ptr(), sin.data_ptr()
        if batch.features is not None:
            self._give_features(batch.features)

    def _give_features(self, wanted: FeatureBuffer) -> None:
        layers = np.array(wanted.layers, dtype=np.int32)
        struct = self.struct
        struct.feature_rows, struct.num_feature_rows = wanted.rows.ctypes.data, len(wanted.rows)
        struct.feature_layers, struct.num_feature_layers = layers.ctypes.data, len(layers)
        struct.features = wanted.values.ctypes.data
        self._memory.append(layers)

    def give_logits(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Have the wanted rows' logits written to ``logits``, which is returned."""
        self.struct.num_logits = len(self._logits_rows)
        self.struct.logits_rows = self._logits_rows.ctypes.data
        self.struct.logits = logits.ctypes.data
        return logits

    def give_probes(self, rows: Rows, hidden_size: int) -> NDArray[np.float32]:
        """Where some rows' states [num_probes, hidden_size] are going to be, as the head takes
        them, if the pass stops before its last layer.
        """
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        states = np.empty((len(rows), hidden_size), dtype=np.float32)
        self.struct.probe_rows, self.struct.num_probes = rows.ctypes.data, len(rows)
        self.struct.probes = states.ctypes.data
        self._memory += [rows, states]
        return states

    def carry(self, kept: Rows) -> None:
        """The rows are the ``kept`` ones, ascending, of the call before."""
        kept = np.ascontiguousarray(kept, dtype=np.int64)
        self.struct.carried_rows = kept.ctypes.data
        self._memory.append(kept)
