"""How a pass's index arrays get to the device, and its logits back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

# Arrays in a staging buffer start at multiples of this, so that they can be viewed as any type.
_ALIGNMENT = 64

Array = NDArray[Any]


class Transfer(Protocol):
    """Copies of one pass. Not thread-safe: the engine's one thread calls it."""

    def to_device(self, arrays: Sequence[Array]) -> list[torch.Tensor]:
        """The arrays as tensors of their shapes and types, which belong to the caller."""
        ...

    def to_host(self, tensor: torch.Tensor) -> NDArray[np.float32]:
        """A float32 tensor as an array, once all work before it is done.

        The array is valid until the next call.
        """
        ...


class HostTransfer:
    """Where host and device share memory nothing is copied."""

    def to_device(self, arrays: Sequence[Array]) -> list[torch.Tensor]:
        return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]

    def to_host(self, tensor: torch.Tensor) -> NDArray[np.float32]:
        array: NDArray[np.float32] = tensor.numpy()
        return array


class StagedTransfer:
    """Packs the arrays of a call into one pinned buffer, which one asynchronous copy sends.

    ``to_host`` waits for the device: the only wait of a pass. A staging buffer is written again
    only after such a wait, or after one of its own.
    """

    def __init__(
        self, device: torch.device, *, pinned: bool, synchronize: Callable[[], None]
    ) -> None:
        self._device = device
        self._pinned = pinned
        self._synchronize = synchronize
        self._staging = self._host_buffer(0, torch.uint8)
        self._used = 0
        self._readback = self._host_buffer(0, torch.float32)

    def to_device(self, arrays: Sequence[Array]) -> list[torch.Tensor]:
        arrays = [np.ascontiguousarray(array) for array in arrays]
        offsets = [0]
        for array in arrays:
            offsets.append(offsets[-1] + -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT)
        staged = self._reserve(offsets[-1])
        host = staged.numpy()
        for array, offset in zip(arrays, offsets, strict=False):
            host[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        sent = torch.empty(len(staged), dtype=torch.uint8, device=self._device)
        sent.copy_(staged, non_blocking=True)
        return [
            sent[offset : offset + array.nbytes]
            .view(torch.from_numpy(np.empty(0, array.dtype)).dtype)
            .view(array.shape)
            for array, offset in zip(arrays, offsets, strict=False)
        ]

    def to_host(self, tensor: torch.Tensor) -> NDArray[np.float32]:
        count = tensor.numel()
        if self._readback.numel() < count:
            self._readback = self._host_buffer(count, torch.float32)
        read = self._readback[:count].view(tensor.shape)
        read.copy_(tensor, non_blocking=True)
        self._wait()
        array: NDArray[np.float32] = read.numpy()
        return array

    def _reserve(self, num_bytes: int) -> torch.Tensor:
        """Staging memory that no copy under way reads."""
        if self._used + num_bytes > self._staging.numel():
            self._wait()
            if num_bytes > self._staging.numel():
                self._staging = self._host_buffer(2 * num_bytes, torch.uint8)
        start, self._used = self._used, self._used + num_bytes
        return self._staging[start : start + num_bytes]

    def _wait(self) -> None:
        self._synchronize()
        self._used = 0

    def _host_buffer(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(count, dtype=dtype, pin_memory=self._pinned and count > 0)


def transfer_for(device: torch.device) -> Transfer:
    """The way to and from ``device``."""
    if device.type != "cuda":
        return HostTransfer()
    stream = torch.cuda.current_stream
    return StagedTransfer(device, pinned=True, synchronize=lambda: stream(device).synchronize())
