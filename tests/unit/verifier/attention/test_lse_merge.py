"""Prefix and tail attention joined by log-sum-exp equal attention over both."""

from __future__ import annotations

import pytest
import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.attention.flash_backend import tails_by_length
from dspark.verifier.attention.lse_merge import merge_by_lse
from dspark.verifier.attention.tail_attention import attend_tail
from dspark.verifier.device.transfer import HostTransfer
from dspark.verifier.model.probe_rows import ProbeRow, probe_batch

ROWS, HEADS, KV_HEADS, DIM = 3, 4, 2, 8


def attend(layer: AttentionLayer, slots: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(ROWS, HEADS, DIM, generator=generator)
    keys, values = torch.randn(2, 32, KV_HEADS, DIM, generator=generator)
    width = max(map(len, slots))
    padded = torch.tensor([row + [row[0]] * (width - len(row)) for row in slots])
    lens = torch.tensor([len(row) for row in slots])
    return attend_tail(layer, query, keys, values, padded, lens)


@pytest.mark.parametrize("soft_cap", [0.0, 1.5])
def test_merge_equals_one_attention(soft_cap: float) -> None:
    layer = AttentionLayer(0, 0.4, soft_cap=soft_cap)
    firsts = [[1, 2, 3], [4], [9, 8, 7, 6]]
    seconds = [[20], [21, 22, 23], [24, 25]]
    whole, _ = attend(layer, [a + b for a, b in zip(firsts, seconds, strict=True)])
    merged = merge_by_lse(*attend(layer, firsts), *attend(layer, seconds))
    torch.testing.assert_close(merged, whole)


def test_an_empty_set_adds_nothing() -> None:
    out, lse = attend(AttentionLayer(0, 0.4), [[1, 2], [3], [4, 5]])
    nothing = torch.full_like(out, torch.nan), torch.full_like(lse, -torch.inf)
    assert torch.equal(merge_by_lse(out, lse, *nothing), out)
    assert torch.equal(merge_by_lse(*nothing, out, lse), out)


def test_tail_window_ends_at_the_rows_own_slot() -> None:
    narrow, _ = attend(AttentionLayer(0, 0.4, sliding_window=2), [[1, 2, 3], [4], [5, 6]])
    expected, _ = attend(AttentionLayer(0, 0.4), [[2, 3], [4], [5, 6]])
    torch.testing.assert_close(narrow, expected)


def test_rows_are_grouped_by_the_length_of_their_tail() -> None:
    rows = [
        ProbeRow(0, (0, 1), (7,)),
        ProbeRow(0, (0, 1)),
        ProbeRow(0, (0, 1), (7, 9)),
        ProbeRow(0, (0, 1), (8,)),
    ]
    groups = tails_by_length(probe_batch(rows, [0], block_size=16), HostTransfer())
    assert [(g.length, g.rows.tolist(), g.slots.tolist()) for g in groups] == [
        (0, [1], [[]]),
        (1, [0, 3], [[7], [8]]),
        (2, [2], [[7, 9]]),
    ]
