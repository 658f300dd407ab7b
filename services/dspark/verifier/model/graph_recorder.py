"""Records what a pass does on the device, to have it done again in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

# Lazy initialisation and compilation are over after so many runs.
_WARM_UP_RUNS = 2
Pass = Callable[[], torch.Tensor]


class GraphRecorder(Protocol):
    """Records passes over tensors that stay where they are."""

    def record(self, run: Pass) -> Pass:
        """What does the work of ``run`` again, reading and writing the same tensors.

        Its result is always the same tensor. Raises what the device raises for work that cannot
        be recorded.
        """
        ...


class CudaGraphRecorder:
    """CUDA graphs; they share memory, since only one runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def record(self, run: Pass) -> Pass:
        new_stream: Any = torch.cuda.Stream
        current, side = torch.cuda.current_stream(self._device), new_stream(self._device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP_RUNS):
                run()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            result = run()
        self._pool = graph.pool()

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay
