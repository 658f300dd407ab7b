"""From features with the layers of all sources to those with the layers that one asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dspark.features import Features


def union_of(layers: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Every layer that any source asks for, ascending."""
    return tuple(sorted({layer for some in layers for layer in some}))


def with_layers(features: Features, given: tuple[int, ...], wanted: tuple[int, ...]) -> Features:
    """The ``wanted`` layers, in their order, of features with the ``given`` ones; all are among
    those.
    """
    if wanted == given:
        return features
    num_tokens, _, hidden_size = features.shape
    values = np.frombuffer(features.data, dtype="<u2").reshape(features.shape)
    data = values[:, [given.index(layer) for layer in wanted]].tobytes()
    return Features(features.first_position, (num_tokens, len(wanted), hidden_size), data)
