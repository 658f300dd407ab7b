"""The seam for what changes logits before a draw: penalties, biases, masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class LogitsProcessor(Protocol):
    """Changes one logits row for one sequence."""

    def __call__(self, logits: NDArray[np.float32], path: Sequence[int]) -> None:
        """Change ``logits`` [vocab_size] in place.

        ``path`` has the tokens committed since the walk began, so each row sees its own past. The
        result depends on the sequence and the path alone: log-probabilities ask again for paths
        that were drawn along.
        """
        ...
