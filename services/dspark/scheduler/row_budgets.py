"""How many rows a step may have at each of several verifiers (pure).

A step full of prompt rows holds up all streams of its verifier. One that is four times as slow
would hold them up four times as long, so it gets fewer rows: none takes longer than a full step of
the fastest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from dspark.scheduler.pace import Speed


def row_budgets(speeds: Mapping[str, Speed], least: int) -> dict[str, int]:
    """Rows by the verifier's name, from ``least`` (or all, if that is less) up to its limit."""
    limit_ms = min((speed.pass_ms(speed.max_rows) for speed in speeds.values()), default=0.0)
    return {name: _rows_within(limit_ms, speed, least) for name, speed in speeds.items()}


def _rows_within(limit_ms: float, speed: Speed, least: int) -> int:
    fitting = bisect_right(range(1, speed.max_rows + 1), limit_ms, key=speed.pass_ms)
    return min(max(fitting, least), speed.max_rows)
