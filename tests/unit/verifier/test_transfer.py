"""Copies to and from a device, with staging buffers in ordinary memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dspark.verifier.device.transfer import HostTransfer, StagedTransfer, Transfer


class Waits:
    """Counts how often the device was waited for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def staged(waits: Waits) -> StagedTransfer:
    return StagedTransfer(torch.device("cpu"), pinned=False, synchronize=waits)


@pytest.fixture(params=["host", "staged"])
def transfer(request: pytest.FixtureRequest) -> Transfer:
    return HostTransfer() if request.param == "host" else staged(Waits())


def test_arrays_arrive_with_their_shapes_and_types(transfer: Transfer) -> None:
    arrays = [
        np.arange(5, dtype=np.int64),
        np.arange(12, dtype=np.int32).reshape(3, 4),
        np.empty((2, 0), dtype=np.int64),
        np.arange(10, dtype=np.int32)[::2],
        np.array([1.5, -2.0], dtype=np.float32),
    ]
    tensors = transfer.to_device(arrays)
    for tensor, array in zip(tensors, arrays, strict=True):
        assert tuple(tensor.shape) == array.shape
        assert torch.equal(tensor, torch.from_numpy(np.ascontiguousarray(array)))
        assert tensor.dtype == torch.from_numpy(np.empty(0, array.dtype)).dtype


def test_nothing_is_sent_and_nothing_comes_back(transfer: Transfer) -> None:
    assert transfer.to_device([]) == []
    assert transfer.to_host(torch.empty(0, 7)).shape == (0, 7)


def test_what_was_sent_before_stays(transfer: Transfer) -> None:
    sent = [transfer.to_device([np.full(1000, i, dtype=np.int64)])[0] for i in range(20)]
    assert [int(tensor.unique()) for tensor in sent] == list(range(20))


def test_logits_come_back(transfer: Transfer) -> None:
    for shape in ((3, 5), (1, 2), (8, 5)):
        logits = torch.randn(shape)
        np.testing.assert_array_equal(transfer.to_host(logits), logits.numpy())


def test_one_wait_a_pass_once_the_buffers_have_grown() -> None:
    waits = Waits()
    transfer = staged(waits)
    for _ in range(3):
        for size in (10, 100, 30):
            transfer.to_device([np.zeros(size, dtype=np.int32), np.zeros(3, dtype=np.int64)])
        transfer.to_host(torch.zeros(4, 4))
    before = waits.count
    for size in (10, 100, 30):
        transfer.to_device([np.zeros(size, dtype=np.int32), np.zeros(3, dtype=np.int64)])
    assert waits.count == before
    transfer.to_host(torch.zeros(4, 4))
    assert waits.count == before + 1


def test_a_buffer_that_may_still_be_read_is_not_written() -> None:
    waits = Waits()
    transfer = staged(waits)
    counts = []
    for _ in range(4):
        transfer.to_device([np.zeros(64, dtype=np.uint8)])
        counts.append(waits.count)
    # The buffer has room for two.
    assert counts == [1, 1, 2, 2]
