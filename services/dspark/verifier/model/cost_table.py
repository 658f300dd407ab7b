"""Measures what a pass costs by its number of rows and the context that they attend to."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from dspark.step import VerifyCost
from dspark.verifier.model.probe_rows import ProbeRow, probe_batch
from dspark.verifier.model.self_test import Forward

ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
# At the shortest context all row counts are measured. At the others it is what a longer context
# adds, which grows evenly with the rows.
CONTEXTS = (64, 512, 2048)
_MANY_ROWS = 16
# Longer contexts are left out once their measurements might take more than this in all.
_BUDGET_S = 1.0


def measure_costs(
    forward: Forward,
    num_slots: int,
    block_size: int,
    max_rows: int,
    max_len: int,
    touch: Callable[[int], None],
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[VerifyCost, ...]:
    """Times of passes over rows that share a context, by context and rows, monotone in both.

    Points that ``max_rows``, the pool or the model's ``max_len`` do not allow are left out.
    ``touch`` gets a number of slots that a pass is going to read, so that they are real memory.
    """
    timer = _Timer(forward, block_size, clock)
    shortest = min(CONTEXTS[0], num_slots // 2)
    counts = [n for n in ROW_COUNTS if n <= min(max_rows, num_slots - shortest)]
    timer.seconds(1, shortest)
    base = [timer.median_ms(count, shortest) for count in counts]
    grid = {shortest: base}
    probed = sorted({counts[0], min(counts, key=lambda n: abs(n - _MANY_ROWS)), counts[-1]})
    left_s = _BUDGET_S
    for context in CONTEXTS[1:]:
        fits = context + counts[-1] <= min(num_slots, max_len)
        last = dict(zip(counts, next(reversed(grid.values())), strict=True))
        # A pass may take twice as long as at the context before.
        if not fits or 2 * sum(last[count] for count in probed) / 1e3 > left_s:
            break
        touch(context + counts[-1])
        times = [timer.seconds(count, context) for count in probed]
        left_s -= sum(times)
        added = [s * 1e3 - last[count] for count, s in zip(probed, times, strict=True)]
        grid[context] = [last[n] + max(0.0, _between(probed, added, n)) for n in counts]
    return _monotone(counts, grid)


class _Timer:
    def __init__(self, forward: Forward, block_size: int, clock: Callable[[], float]) -> None:
        self._forward = forward
        self._block_size = block_size
        self._clock = clock

    def median_ms(self, num_rows: int, context: int) -> float:
        repeats = 3 if num_rows <= _MANY_ROWS else 1
        times = [self.seconds(num_rows, context) for _ in range(repeats)]
        return statistics.median_low(times) * 1e3

    def seconds(self, num_rows: int, context: int) -> float:
        """One pass of nodes after the first ``context`` slots of the pool."""
        prefix = tuple(range(context))
        rows = [ProbeRow(0, prefix, (context + index,)) for index in range(num_rows)]
        batch = probe_batch(rows, range(num_rows), self._block_size)
        started = self._clock()
        self._forward(batch)
        return self._clock() - started


def _between(rows: Sequence[int], values: Sequence[float], wanted: int) -> float:
    """The value at ``wanted`` on straight lines through the points."""
    for index in range(1, len(rows)):
        if wanted <= rows[index] or index == len(rows) - 1:
            share = (wanted - rows[index - 1]) / (rows[index] - rows[index - 1])
            return values[index - 1] + share * (values[index] - values[index - 1])
    return values[0]


def _monotone(counts: Sequence[int], grid: dict[int, list[float]]) -> tuple[VerifyCost, ...]:
    points = []
    before = [0.0] * len(counts)
    for context, row in grid.items():
        highest = 0.0
        for index, (count, ms) in enumerate(zip(counts, row, strict=True)):
            highest = before[index] = max(highest, before[index], ms)
            points.append(VerifyCost(count, round(highest, 3), context))
    return tuple(points)
