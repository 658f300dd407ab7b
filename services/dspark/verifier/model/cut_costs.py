"""Measures what the layers of a pass cost by its number of rows, and what a cut adds to it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.model.probe_rows import ProbeRow, probe_batch
from dspark.verifier.model.self_test import Forward
from dspark.verifier.pruning.cut import Cut, CuttingRunner, Rows
from dspark.verifier.pruning.savings import CutCost

Clock = Callable[[], float]

ROW_COUNTS = (8, 16, 32, 64, 128, 256)
# Passes of more rows are measured once, others twice.
_MANY_ROWS = 16
CONTEXT = 64
# Larger passes are left out once the next one might take more than this in all.
BUDGET_S = 1.0
# Tokens whose logits a cut asks for, as trees and what is likely anywhere make them.
_NUM_TOKENS = 192


def measure_cut_costs(
    forward: Forward,
    cutting: CuttingRunner,
    num_slots: int,
    block_size: int,
    max_rows: int,
    clock: Clock = time.perf_counter,
) -> list[CutCost]:
    """One for each number of rows, as far as ``max_rows``, the pool and a second allow.

    A cut in the middle tells what a layer costs from what is left after it. Every second of the
    rows asks for the logits of its children.
    """
    costs: list[CutCost] = []
    left_s = BUDGET_S
    for count in ROW_COUNTS:
        if count > max_rows or CONTEXT + count > num_slots:
            break
        started = clock()
        costs.append(_cost(forward, cutting, count, block_size, clock))
        used_s = clock() - started
        left_s -= used_s
        if left_s < 2 * used_s:
            break
    return costs


def _cost(
    forward: Forward, cutting: CuttingRunner, count: int, block_size: int, clock: Clock
) -> CutCost:
    """The shortest times of one turn or two."""
    prefix = tuple(range(CONTEXT))
    rows = [ProbeRow(0, prefix, (CONTEXT + index,)) for index in range(count)]
    batch = probe_batch(rows, range(count), block_size)
    half = _Half(cutting.num_layers, count, clock)
    plain_s = float("inf")
    for _ in range(2 if count <= _MANY_ROWS else 1):
        plain_s = min(plain_s, _seconds(clock, lambda: forward(batch)))
        half.note(_seconds(clock, lambda: cutting.forward_cut(batch, half.cut)))
    return half.cost(plain_s)


def _seconds(clock: Clock, work: Callable[[], object]) -> float:
    started = clock()
    work()
    return clock() - started


class _Half:
    """A cut in the middle of the layers that drops nothing, and the shortest times with it."""

    def __init__(self, num_layers: int, num_rows: int, clock: Clock) -> None:
        self._num_layers = num_layers
        self._rows: Rows = np.arange(num_rows, dtype=np.int64)
        self._clock = clock
        self._cut_at = 0.0
        self._whole_s = self._rest_s = float("inf")
        self.cut = Cut(
            num_layers // 2, self._rows[::2], np.arange(_NUM_TOKENS, dtype=np.int64), self._choose
        )

    def _choose(self, logits: NDArray[np.float32]) -> Rows:
        self._cut_at = self._clock()
        return self._rows

    def note(self, seconds: float) -> None:
        """A pass with the cut took so long, and has just ended."""
        self._whole_s = min(self._whole_s, seconds)
        self._rest_s = min(self._rest_s, self._clock() - self._cut_at)

    def cost(self, plain_s: float) -> CutCost:
        before_s = plain_s - self._rest_s
        return CutCost(
            len(self._rows),
            plain_s * 1e3,
            max(before_s, 0.0) * 1e3 / self.cut.layer,
            (self._whole_s - plain_s) * 1e3,
        )
