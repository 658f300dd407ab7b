"""Sources of guesses by figures: how often they guess, how often they are right, what they say."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.simulate.checks import at_least, shares
from dspark.proposal import SourceRate


@dataclass(frozen=True, slots=True)
class TextKind:
    """A share of the texts, in which sources are right ``factor`` times as often as in general."""

    share: float
    factor: float

    def __post_init__(self) -> None:
        shares(self, "share")
        at_least(0, self, "factor")


@dataclass(frozen=True, slots=True)
class SourceModel:
    """One source.

    ``acceptance`` is the probability that the first guess at depth 1, 2 and so on is right if those
    before it are; the last entry holds for all deeper ones. ``further`` is that of the second and
    later guesses beside it, which lead no further. In a share ``offered`` of the spans of
    ``span_tokens`` tokens there is anything to guess at all. Scores are the true probability times
    ``overconfidence``.
    """

    name: str
    acceptance: tuple[float, ...]
    further: tuple[float, ...] = ()
    max_depth: int = 8
    offered: float = 1.0
    span_tokens: int = 16
    overconfidence: float = 1.0
    ms_per_request: float = 0.0

    def __post_init__(self) -> None:
        at_least(0, self, "ms_per_request", "overconfidence")
        at_least(1, self, "max_depth", "span_tokens")
        shares(self, "offered")
        given = (*self.acceptance, *self.further)
        if not self.acceptance or not all(0.0 <= each <= 1.0 for each in given):
            raise ValueError("acceptance and further must be probabilities, acceptance not empty")

    @property
    def rate(self) -> SourceRate:
        """What it says that it costs: the same by requests, and by the nodes of a whole tree."""
        num_nodes = self.max_depth * (1 + len(self.further))
        return SourceRate(self.name, self.ms_per_request, self.ms_per_request / num_nodes)

    def acceptance_at(self, depth: int) -> float:
        """Of the first guess at a depth from 1."""
        return self.acceptance[min(depth, len(self.acceptance)) - 1]
