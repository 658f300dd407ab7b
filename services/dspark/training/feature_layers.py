"""Which layers' hidden states a network learns from that looks at more than the last one."""

from __future__ import annotations

from dspark.features import FINAL_LAYER

NUM_LAYERS = 3


def evenly_spaced(num_layers: int) -> tuple[int, ...]:
    """Ascending: FINAL_LAYER, and three of a target's layers up to the last but two.

    The last layers serve the next token alone; what they know of it FINAL_LAYER has as well.
    """
    last = max(1, num_layers - 2)
    spaced = (round(last * part / NUM_LAYERS) for part in range(1, NUM_LAYERS + 1))
    return tuple(sorted({FINAL_LAYER, *(max(1, layer) for layer in spaced)}))
