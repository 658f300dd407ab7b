"""What candidates are told and what they propose (wire form: candidates_service.proto)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from dspark.features import Features
from dspark.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class SequenceUpdate:
    """Tokens to append after ``base_len``; 0 starts the sequence anew with its prompt.

    ``temperature`` and ``seed`` count where the sequence starts: the request's tokens are drawn
    with noise that the seed keys (``dspark.keyed_noise``), at temperature 0 without any.
    """

    request_id: str
    epoch: int
    base_len: int
    token_ids: tuple[int, ...]
    num_prompt_tokens: int = 0
    cache_salt: str = ""
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Successors:
    """Rows of the target's own most likely next tokens: top_k entries of top_token_ids a row."""

    row_token_ids: tuple[int, ...]
    top_token_ids: tuple[int, ...]
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class SequenceFeatures:
    """Hidden states at the latest computed tokens of a sequence, with the layers asked for."""

    request_id: str
    epoch: int
    features: Features


@dataclass(frozen=True, slots=True)
class SequenceEnd:
    """The end of a sequence; ``completed`` means its text may feed shared sources."""

    request_id: str
    epoch: int
    completed: bool


@dataclass(frozen=True, slots=True)
class CandidatesUpdate:
    """What happened since the last call.

    It is applied in the order: sequences, features, successors, releases.
    """

    sequences: tuple[SequenceUpdate, ...] = ()
    successors: tuple[Successors, ...] = ()
    releases: tuple[SequenceEnd, ...] = ()
    features: tuple[SequenceFeatures, ...] = ()


@dataclass(frozen=True, slots=True)
class ProposeItem:
    """A wish for one token tree of at most ``max_nodes`` nodes and ``max_depth`` levels.

    Nodes that survive with less than ``min_survival`` are not worth a row. Work on the tree is
    worth ``price`` tokens a millisecond; 0 means that nothing is known of either.
    """

    request_id: str
    epoch: int
    base_len: int
    max_nodes: int
    max_depth: int
    sources: tuple[str, ...] = ()
    min_survival: float = 0.0
    price: float = 0.0


@dataclass(frozen=True, slots=True)
class DraftProposal:
    """Candidates for one sequence of length ``base_len``."""

    request_id: str
    epoch: int
    base_len: int
    tree: TokenTree


@dataclass(frozen=True, slots=True)
class ProposeOutcome:
    """The reply to a batch of items; costs are nanoseconds by source over all items."""

    proposals: tuple[DraftProposal, ...] = ()
    unknown_request_ids: tuple[str, ...] = ()
    source_costs_ns: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceRate:
    """What asking one source costs in milliseconds, as running averages."""

    name: str
    ms_per_request: float
    ms_per_node: float


@dataclass(frozen=True)
class CandidatesInfo:
    """The running sources, what of the target they want to observe, and their costs.

    That is ``top_k`` successors of each row, and ``feature_layers``, ascending, of the latest
    ``num_features`` tokens of each sequence that may ask one of ``feature_sources``.
    """

    sources: tuple[str, ...]
    top_k: int
    rates: tuple[SourceRate, ...] = ()
    feature_layers: tuple[int, ...] = ()
    num_features: int = 0
    feature_sources: tuple[str, ...] = ()

    @cached_property
    def source_ms(self) -> dict[str, float]:
        """What asking a source costs for one request, of those that say so."""
        return {rate.name: rate.ms_per_request for rate in self.rates}

    def ms_of(self, sources: Collection[str]) -> float:
        """What these sources together are known to cost for one request."""
        return sum(ms for name, ms in self.source_ms.items() if name in sources)
