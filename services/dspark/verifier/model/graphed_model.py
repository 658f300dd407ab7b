"""A model whose small passes are recorded once by number of rows, and replayed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.verifier.attention.backend import StaticBackend
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.graph_recorder import GraphRecorder, Pass
from dspark.verifier.model.padded_batch import filler, padded
from dspark.verifier.model.stock_model import PassInputs, StockModel

log = logging.getLogger(__name__)

# Numbers of rows that are recorded; a pass is filled up to the next one.
ROW_COUNTS = (4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class RecordedPass:
    """The tensors that a recording reads, and what replays it."""

    num_rows: int
    inputs: PassInputs
    plan: Any
    replay: Pass


class GraphedModel:
    """Replays a recording where one fits the pass, and runs the model otherwise."""

    def __init__(self, model: StockModel, backend: StaticBackend, kv_cache: KvCache) -> None:
        """The pool needs a scratch block, which the rows that fill a pass up write to."""
        self.vocab_size = model.vocab_size
        self.hidden_size = model.hidden_size
        self.feature_layers = model.feature_layers
        self.recordings: list[RecordedPass] = []
        self._model = model
        self._backend = backend
        self._kv_cache = kv_cache
        self._spare_block = kv_cache.num_blocks + kv_cache.num_scratch_blocks - 1

    def record(
        self, recorder: GraphRecorder, max_blocks: int, row_counts: Sequence[int] = ROW_COUNTS
    ) -> None:
        """Record a pass of each size; raises what recording raises, with no recording kept.

        A sequence of more than ``max_blocks`` KV blocks is left to the model.
        """
        recordings = []
        with torch.inference_mode():
            for num_rows in row_counts:
                recordings.append(self._record(recorder, num_rows, max_blocks))
        self.recordings = recordings

    def _record(self, recorder: GraphRecorder, num_rows: int, max_blocks: int) -> RecordedPass:
        batch = filler(num_rows, self._spare_block, self._kv_cache.block_size)
        inputs = self._model.inputs(batch)
        plan = self._backend.static_plan(batch, self._kv_cache, max_blocks)
        replay = recorder.record(lambda: self._model.run(inputs, plan, self._kv_cache))
        return RecordedPass(num_rows, inputs, plan, replay)

    def forward(self, batch: ForwardBatch, kv_cache: KvCache) -> NDArray[np.float32]:
        """Logits of the wanted rows, as StockModel's."""
        assert kv_cache is self._kv_cache, "recordings are bound to their pool"
        recording = None
        # A recording keeps no hidden states.
        if batch.features is None:
            fitting = (r for r in self.recordings if r.num_rows >= batch.num_rows)
            recording = next(fitting, None)
        with torch.inference_mode():
            if recording is None or not self._refill(recording, batch):
                return self._model.forward(batch, kv_cache)
            logits = recording.replay()[: len(batch.logits_rows)]
            return self._model.transfer.to_host(logits)

    def _refill(self, recording: RecordedPass, batch: ForwardBatch) -> bool:
        full = padded(batch, recording.num_rows, self._spare_block, self._kv_cache.block_size)
        if not self._backend.refill(recording.plan, full, self._kv_cache):
            return False
        inputs, new = recording.inputs, self._model.inputs(full)
        inputs.token_ids.copy_(new.token_ids)
        inputs.positions.copy_(new.positions)
        inputs.logits_rows.copy_(new.logits_rows)
        return True
