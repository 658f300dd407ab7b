"""Which rows of a pass have features that are wanted, and what of them a commit hands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.features import Features
from dspark.verifier.feature_buffer import FeatureBuffer
from dspark.verifier.scheduled_work import ScheduledWork

FeatureRows = Mapping[str, NDArray[np.float32]]
"""By request id, [num_rows, num_layers, hidden_size]: of an entry the last pending rows that are
wanted, then its tree's nodes."""


def feature_buffer(
    entries: Sequence[ScheduledWork], layers: tuple[int, ...], hidden_size: int
) -> FeatureBuffer | None:
    """A buffer for what a pass over ``entries`` is to hand out; None where nobody wants any."""
    rows: list[int] = []
    first = 0
    for entry in entries:
        wanted = _num_wanted(entry)
        rows += range(first + entry.num_rows - wanted, first + entry.num_rows)
        first += entry.num_rows
    if not rows or not layers:
        return None
    return FeatureBuffer.of(layers, np.array(rows, dtype=np.int64), hidden_size)


def feature_rows(entries: Sequence[ScheduledWork], buffer: FeatureBuffer | None) -> FeatureRows:
    """The filled buffer, entry by entry."""
    if buffer is None:
        return {}
    found: dict[str, NDArray[np.float32]] = {}
    first = 0
    for entry in entries:
        if wanted := _num_wanted(entry):
            found[entry.sequence.request_id] = buffer.values[first : first + wanted]
            first += wanted
    return found


def without_nodes(
    rows: FeatureRows, request_id: str, num_nodes: int, kept: Sequence[int]
) -> FeatureRows:
    """The same rows where of an entry's last ``num_nodes``, its tree's, only some are ``kept``."""
    values = rows.get(request_id)
    if values is None:
        return rows
    num_pending = len(values) - num_nodes
    places = [*range(num_pending), *(num_pending + node for node in kept)]
    return {**rows, request_id: values[places]}


def committed_features(
    entry: ScheduledWork, accepted_nodes: Sequence[int], rows: FeatureRows
) -> Features | None:
    """Those of the last tokens whose K/V is now in place; ``accepted_nodes`` count from 1."""
    values = rows.get(entry.sequence.request_id)
    if values is None:
        return None
    num_pending = len(values) - len(entry.tree)
    path = [*range(num_pending), *(num_pending + node - 1 for node in accepted_nodes)]
    path = path[-entry.work.num_features :]
    end = entry.end + len(accepted_nodes)
    num_layers, hidden_size = values.shape[1:]
    data = _to_bfloat16(values[path]).tobytes()
    return Features(end - len(path), (len(path), num_layers, hidden_size), data)


def _num_wanted(entry: ScheduledWork) -> int:
    if not entry.work.num_features:
        return 0
    return min(entry.end - entry.start, entry.work.num_features) + len(entry.tree)


def _to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper halves, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("<u2")
