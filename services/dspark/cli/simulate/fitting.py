"""Figures of a model from what a real run took (pure)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, quantiles

from dspark.scheduler.context_costs import ContextCosts
from dspark.step import VerifyCost

# Points of the table with fewer passes near them take over what is known of the nearest with more.
_MIN_PASSES = 5
_MAX_JITTER = 0.5
# (rows, mean context, milliseconds)
Pass = tuple[int, float, float]


def line_through(points: Iterable[tuple[int, float]]) -> tuple[float, float]:
    """Least squares of y = a + b x with a and b of 0 or more; the mean and 0 at a single x."""
    xs, ys = zip(*points, strict=True)
    mean_x, mean_y = fmean(xs), fmean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    slope = slope / spread if spread else 0.0
    if slope <= 0:
        return max(mean_y, 0.0), 0.0
    start = mean_y - slope * mean_x
    if start >= 0:
        return start, slope
    through_zero = sum(x * y for x, y in zip(xs, ys, strict=True)) / sum(x * x for x in xs)
    return 0.0, max(through_zero, 0.0)


def true_costs(measured: Sequence[VerifyCost], passes: Sequence[Pass]) -> tuple[VerifyCost, ...]:
    """A verifier's table, corrected to what passes took while it served.

    Each point is multiplied by the time of the passes nearest to its rows over what the table says
    of them. The shape over contexts stays the table's. Beyond its last rows, which prompts reach,
    points of the passes themselves are added. Without a table, passes are all there is.
    """
    if not measured:
        return _by_octave(passes, 0)
    table = ContextCosts(measured)
    counts = sorted({point.rows for point in measured})
    ratios = _ratios(counts, table, [each for each in passes if each[0] <= counts[-1]])
    corrected = [
        point._replace(milliseconds=point.milliseconds * ratios[point.rows]) for point in measured
    ]
    least = min(point.context for point in measured)
    beyond = [each._replace(context=least) for each in _by_octave(passes, 2 * counts[-1] - 1)]
    return tuple(sorted(corrected + beyond, key=lambda point: (point.context, point.rows)))


def jitter_of(costs: Sequence[VerifyCost], passes: Sequence[Pass]) -> float:
    """Standard deviation of a pass over its expected time, without the outliers of both ends."""
    table = ContextCosts(costs)
    shares = [ms / table.at(context).ms(rows) for rows, context, ms in passes]
    if len(shares) < 2:
        return 0.0
    cuts = quantiles(shares, n=100)
    # Between these two lie as many values as within one deviation of a normal mean.
    return min((cuts[83] - cuts[15]) / 2 / max(cuts[49], 1e-9), _MAX_JITTER)


def _ratios(counts: Sequence[int], table: ContextCosts, passes: Sequence[Pass]) -> dict[int, float]:
    """By the rows of each point: observed over expected time of the passes nearest to it."""
    observed: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for rows, context, ms in passes:
        nearest = min(counts, key=lambda count: abs(math.log2(rows / count)))
        observed[nearest].append((ms, table.at(context).ms(rows)))
    known = {
        count: sum(ms for ms, _ in pairs) / sum(expected for _, expected in pairs)
        for count, pairs in observed.items()
        if len(pairs) >= _MIN_PASSES
    }
    if not known:
        return dict.fromkeys(counts, 1.0)
    return {c: known[min(known, key=lambda k: abs(math.log2(k / c)))] for c in counts}


def _by_octave(passes: Sequence[Pass], above: int) -> tuple[VerifyCost, ...]:
    """Mean rows and time of passes of about as many rows, of those with more than ``above``."""
    groups: defaultdict[int, list[Pass]] = defaultdict(list)
    for each in passes:
        if each[0] > above:
            groups[round(2 * math.log2(each[0]))].append(each)
    return tuple(
        VerifyCost(round(fmean(p[0] for p in group)), fmean(p[2] for p in group))
        for _, group in sorted(groups.items())
    )
