"""The one list of candidate sources by name."""

from __future__ import annotations

from collections.abc import Callable

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.sources.interface import CandidateSource
from dspark.candidates.sources.recycle import RecycleSource
from dspark.candidates.sources.retrieval import retrieval_source
from dspark.candidates.sources.suffix import SuffixSource

SourceFactory = Callable[[CandidatesConfig], CandidateSource]

REGISTRY: dict[str, SourceFactory] = {
    RecycleSource.name: lambda config: RecycleSource(),
    SuffixSource.name: lambda config: SuffixSource(),
    "retrieval": retrieval_source,
}


def build_sources(config: CandidatesConfig) -> list[CandidateSource]:
    """The named sources, in the config's order. Raises ValueError for a name that is not known."""
    unknown = [name for name in config.sources if name not in REGISTRY]
    if unknown:
        raise ValueError(f"sources: unknown {unknown}; known are {sorted(REGISTRY)}")
    return [REGISTRY[name](config) for name in config.sources]
