"""A pass without some of its rows (pure)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.feature_buffer import FeatureBuffer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.pruning.cut import Rows


def compacted(batch: ForwardBatch, kept: Rows) -> ForwardBatch:
    """The ``kept`` rows, ascending, as a pass of its own that hands out no features.

    Lists of slots stay whole: a kept row's path is kept, so what it points to is still right.
    """
    return replace(
        batch,
        token_ids=batch.token_ids[kept],
        positions=batch.positions[kept],
        slot_mapping=batch.slot_mapping[kept],
        prefix_starts=batch.prefix_starts[kept],
        prefix_lens=batch.prefix_lens[kept],
        tail_starts=batch.tail_starts[kept],
        tail_lens=batch.tail_lens[kept],
        sequence_ids=batch.sequence_ids[kept],
        logits_rows=places_in(kept, batch.logits_rows),
        features=None,
    )


def places_in(kept: Rows, rows: Rows) -> Rows:
    """Where those of ``rows`` that are kept stand among the kept ones; both ascend."""
    places: Rows = np.flatnonzero(np.isin(kept, rows)).astype(np.int64)
    return places


class LateFeatures:
    """Features of the layers behind a cut, whose rows have moved: from a buffer of their own."""

    def __init__(
        self, wanted: FeatureBuffer | None, kept: Rows, is_late: NDArray[np.bool_]
    ) -> None:
        """``is_late`` [num_layers] tells which of the wanted layers lie behind the cut."""
        self.buffer: FeatureBuffer | None = None
        if wanted is None or not is_late.any():
            return
        self._wanted = wanted
        self._columns = np.flatnonzero(is_late)
        self._entries = np.flatnonzero(np.isin(wanted.rows, kept))
        layers = tuple(wanted.layers[column] for column in self._columns)
        places = np.searchsorted(kept, wanted.rows[self._entries])
        self.buffer = FeatureBuffer.of(layers, places, wanted.values.shape[2])

    def deliver(self) -> None:
        """Put what the second part of the pass wrote where it is wanted."""
        if self.buffer is not None:
            target = np.ix_(self._entries, self._columns)
            self._wanted.values[target] = self.buffer.values
