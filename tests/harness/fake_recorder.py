"""Records a pass as a Python callable and runs it again on replay, as CUDA graphs would."""

from __future__ import annotations

from collections.abc import Callable

import torch


class FakeRecorder:
    """Replays write into the tensor of the first run; ``num_replays`` counts them."""

    def __init__(self) -> None:
        self.num_replays = 0

    def record(self, run: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        result = run().clone()

        def replay() -> torch.Tensor:
            self.num_replays += 1
            result.copy_(run())
            return result

        return replay


class BrokenRecorder:
    """A device on which nothing can be recorded."""

    def record(self, run: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        raise RuntimeError("operation not permitted when stream is capturing")
