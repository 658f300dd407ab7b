"""What a candidate source is."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from dspark.candidates.sequence import LiveSequence
from dspark.circuit_breaker import BreakerState
from dspark.features import Features
from dspark.metrics.distribution import Distribution
from dspark.proposal import Successors
from dspark.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """A wish for one tree that grows from the last token of ``sequence``.

    ``min_survival`` and ``price`` are those of a ProposeItem.
    """

    sequence: LiveSequence
    max_nodes: int
    max_depth: int
    min_survival: float = 0.0
    price: float = 0.0

    @property
    def floor(self) -> float:
        """Survival below which a source leaves a node out; where others agree it has more."""
        return self.min_survival / 2


@dataclass(frozen=True, slots=True)
class SourceVitals:
    """How a source is doing. The names in it are a few that never change.

    ``num_entries`` is the size of its state in its own unit: tokens, contexts, rows of a table.
    ``troubles`` counts what went wrong; ``breakers`` and ``seconds``, by operation, are those of
    the store it uses.
    """

    num_entries: int = 0
    troubles: Mapping[str, int] = field(default_factory=dict)
    breakers: Mapping[str, BreakerState] = field(default_factory=dict)
    seconds: Mapping[str, Distribution] = field(default_factory=dict)


Trees: TypeAlias = Sequence[TokenTree]
"""One tree for each request, in order; an empty tree means no guess."""


class CandidateSource(Protocol):
    """Guesses next tokens. It may be wrong, slow or broken: that costs speed at most.

    All calls come from the event loop's thread. A source that has to wait returns an awaitable from
    ``propose``; the others return their trees at once. The caller measures what each call costs.
    """

    name: str
    top_k: int = 0
    """How many of the target's own successors a row ``observe`` wants; 0 means none."""
    feature_layers: tuple[int, ...] = ()
    """The layers, numbered as in dspark.features, that ``observe_features`` wants, in its order."""
    num_features: int = 0
    """Of how many of each sequence's latest tokens it wants them; 0 means none."""

    def propose(
        self, requests: Sequence[DraftRequest], deadline: float
    ) -> Trees | Awaitable[Trees]:
        """Trees for the requests; what comes after ``deadline`` (time.monotonic) is dropped."""
        ...

    def commit(self, sequence: LiveSequence, token_ids: Sequence[int]) -> None:
        """``token_ids`` are new at the end of ``sequence``, which already holds them."""
        return None

    def observe(self, successors: Successors) -> None:
        """The target's most likely successors of tokens it computed, accepted or not."""
        return None

    def observe_features(self, sequence: LiveSequence, features: Features) -> None:
        """Hidden states of the target at new computed tokens of ``sequence``, the latest ones.

        Before the source is asked, these end with the token before the last, unless they got lost.
        Those of the tokens between two calls may be missing.
        """
        return None

    def release(self, sequence: LiveSequence, completed: bool) -> None:
        """The sequence ended; only a completed one may teach other requests."""
        return None

    def vitals(self) -> SourceVitals:
        """How it is doing; may be called from another thread."""
        return SourceVitals()

    async def start(self) -> None:
        """Called once, in the event loop, before anything else."""
        return None

    async def close(self) -> None:
        """Called once, last."""
        return None
