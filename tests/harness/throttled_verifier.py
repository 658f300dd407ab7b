"""A verifier process whose machine seems slower than it is: each pass is followed by a pause.

``python -m harness.throttled_verifier`` takes the flags of ``python -m dspark.verifier``; the
variable SLOWNESS says how many times as long a pass takes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dspark.config import parse
from dspark.verifier.__main__ import load, print_progress
from dspark.verifier.config import VerifierConfig
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import LoadedModel, Progress
from dspark.verifier.server import serve


class ThrottledRunner:
    """Another runner, with a pause after each of its passes."""

    def __init__(self, runner: Any, slowness: float) -> None:
        self._runner = runner
        self._slowness = slowness

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        started = time.perf_counter()
        logits: NDArray[np.float32] = self._runner.forward(batch)
        time.sleep((time.perf_counter() - started) * (self._slowness - 1))
        return logits


def load_throttled(config: VerifierConfig, progress: Progress) -> LoadedModel:
    """The model, with costs as a machine of that speed would have measured them."""
    slowness = float(os.environ["SLOWNESS"])
    loaded = load(config, progress)
    costs = tuple(
        cost._replace(milliseconds=cost.milliseconds * slowness) for cost in loaded.verify_costs
    )
    runner = ThrottledRunner(loaded.runner, slowness)
    return dataclasses.replace(loaded, runner=runner, verify_costs=costs)


if __name__ == "__main__":
    config = parse(VerifierConfig, "Serve one model slowly.")
    asyncio.run(serve(config, load_throttled, print_progress, asyncio.Event()))
