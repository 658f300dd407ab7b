"""Measures what a pass costs by its number of rows."""

from __future__ import annotations

import statistics
import time
from itertools import accumulate

from dspark.verifier.model.probe_rows import ProbeRow, probe_batch
from dspark.verifier.model.self_test import Forward

ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
_CONTEXT = 64
_MANY_ROWS = 16


def measure_costs(
    forward: Forward, num_slots: int, block_size: int, max_rows: int
) -> tuple[tuple[int, float], ...]:
    """(rows, milliseconds) of passes over rows that share a short context; ascending, monotone.

    Row counts that neither ``max_rows`` nor the pool allows are left out.
    """
    context = min(_CONTEXT, num_slots // 2)
    counts = [n for n in ROW_COUNTS if n <= min(max_rows, num_slots - context)]
    _time_rows(forward, 1, context, block_size)
    costs = [_median_ms(forward, count, context, block_size) for count in counts]
    return tuple(zip(counts, accumulate(costs, max), strict=True))


def _median_ms(forward: Forward, num_rows: int, context: int, block_size: int) -> float:
    repeats = 3 if num_rows <= _MANY_ROWS else 1
    times = [_time_rows(forward, num_rows, context, block_size) for _ in range(repeats)]
    return round(statistics.median_low(times) * 1000, 3)


def _time_rows(forward: Forward, num_rows: int, context: int, block_size: int) -> float:
    prefix = tuple(range(context))
    rows = [ProbeRow(0, prefix, (context + index,)) for index in range(num_rows)]
    batch = probe_batch(rows, range(num_rows), block_size)
    started = time.perf_counter()
    forward(batch)
    return time.perf_counter() - started
