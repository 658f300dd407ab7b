"""Counters since the start, and the statistics of a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dspark.metrics import buckets
from dspark.metrics.distribution import Distribution
from dspark.sampling import FinishReason, SourceCounts, SpeculationStats
from dspark.scheduler.drafting_books import DraftingBooks, NodesBySource
from dspark.scheduler.fairness.class_books import ClassBooks
from dspark.token_tree import TokenTree

# Depths of accepted nodes that are counted apart; deeper ones are counted together.
MAX_POSITIONS = 16


class AcceptedNodes:
    """Accepted nodes by how deep they were, and by who proposed them."""

    def __init__(self) -> None:
        self.sources = NodesBySource()
        # rounds by number of accepted nodes, the last entry having all with MAX_POSITIONS or more
        self._rounds = [0] * (MAX_POSITIONS + 1)
        self._num_deeper = 0

    def add(self, tree: TokenTree, accepted_nodes: tuple[int, ...], num_forced: int = 0) -> None:
        """Count one committed verify pass, with so many accepted nodes that no tree had."""
        count = len(accepted_nodes) + num_forced
        if not count:
            return
        self._rounds[min(count, MAX_POSITIONS)] += 1
        self._num_deeper += max(count - MAX_POSITIONS, 0)
        masks = tree.source_masks
        self.sources.add(tree.source_names, [masks[entry - 1] for entry in accepted_nodes])

    def by_position(self) -> list[int]:
        """Nodes at depth 1, 2 and so on to MAX_POSITIONS, then all that were deeper."""
        reached, positions = 0, []
        for rounds in reversed(self._rounds[1:]):
            reached += rounds
            positions.append(reached)
        return [*reversed(positions), self._num_deeper]


@dataclass(slots=True)
class Totals:
    """Counters of the scheduler since its start."""

    num_steps: int = 0
    num_preemptions: int = 0
    generation_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    # tokens that a verifier committed for requests that had ended or moved by then
    num_discarded_tokens: int = 0
    finished: Counter[FinishReason] = field(default_factory=Counter)
    speculation: SpeculationStats = field(default_factory=SpeculationStats)
    iteration_tokens: Distribution = field(
        default_factory=lambda: Distribution(buckets.ITERATION_TOKENS)
    )
    accepted: AcceptedNodes = field(default_factory=AcceptedNodes)
    drafting: DraftingBooks = field(default_factory=DraftingBooks)
    classes: ClassBooks = field(default_factory=ClassBooks)

    def count_end(self, reason: FinishReason) -> None:
        self.finished[reason] += 1


def count_round(
    books: Iterable[SpeculationStats], tree: TokenTree, accepted_nodes: tuple[int, ...]
) -> None:
    """Count one committed verify pass in each of the books."""
    drafted = Counter(tree.source_masks)
    accepted = Counter(tree.source_masks[entry - 1] for entry in accepted_nodes)
    by_source = [
        (name, _with_bit(drafted, bit), _with_bit(accepted, bit))
        for bit, name in enumerate(tree.source_names if tree else ())
    ]
    for stats in books:
        stats.rounds += 1
        stats.drafted += len(tree)
        stats.accepted += len(accepted_nodes)
        for name, num_drafted, num_accepted in by_source:
            if num_drafted:
                counts = stats.sources.setdefault(name, SourceCounts())
                counts.drafted += num_drafted
                counts.accepted += num_accepted


def _with_bit(masks: Counter[int], bit: int) -> int:
    return sum(count for mask, count in masks.items() if mask >> bit & 1)


class MovingAverage:
    """Exponentially weighted mean that starts at a guess."""

    def __init__(self, initial: float, weight: float = 0.1) -> None:
        self.value = initial
        self._weight = weight

    def add(self, sample: float) -> None:
        self.value += self._weight * (sample - self.value)
