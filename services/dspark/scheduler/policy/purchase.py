"""How many nodes are worth their rows at a price (pure).

Committed tokens per millisecond over many steps are a ratio of two sums. By fractional programming
(Dinkelbach, Management Science 13(7), 1967) the ratio is largest where each step maximises tokens
less price times milliseconds, and the price is the largest ratio itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dspark.scheduler.cost_table import CostTable


class Purchase(NamedTuple):
    """The first nodes: how many, what they bring in tokens, what their rows cost in ms."""

    num_nodes: int = 0
    tokens: float = 0.0
    ms: float = 0.0

    def surplus(self, price: float) -> float:
        """Tokens beyond what the rows' time is worth at ``price`` tokens a millisecond."""
        return self.tokens - price * self.ms


def best_purchase(
    survivals: Sequence[float], num_rows: int, costs: CostTable, price: float
) -> Purchase:
    """The number of first nodes with the largest surplus.

    ``survivals`` are sorted, best first. ``num_rows`` is the pass without nodes. The cost may be a
    staircase, on which a row that does not pay leads to a tile that does, so every count is tried.
    """
    plain_ms = costs.ms(num_rows)
    best, best_surplus = Purchase(), 0.0
    tokens = 0.0
    for count, survival in enumerate(survivals, start=1):
        tokens += survival
        ms = costs.ms(num_rows + count) - plain_ms
        surplus = tokens - price * ms
        if surplus > best_surplus:
            best, best_surplus = Purchase(count, tokens, ms), surplus
    return best


def least_survival(num_rows: int, max_nodes: int, costs: CostTable, price: float) -> float:
    """Survival below which no node is worth its share of any number of rows up to ``max_nodes``."""
    plain_ms = costs.ms(num_rows)
    counts = range(1, max_nodes + 1)
    cheapest = min(((costs.ms(num_rows + c) - plain_ms) / c for c in counts), default=0.0)
    return min(1.0, price * cheapest)
