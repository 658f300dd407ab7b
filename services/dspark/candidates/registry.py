"""The one list of candidate sources by name."""

from __future__ import annotations

from collections.abc import Callable

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.sources import corpus_name
from dspark.candidates.sources.corpus import corpus_source
from dspark.candidates.sources.interface import CandidateSource
from dspark.candidates.sources.recycle import RecycleSource
from dspark.candidates.sources.retrieval import retrieval_source
from dspark.candidates.sources.suffix import SuffixSource

SourceFactory = Callable[[CandidatesConfig], CandidateSource]
NamedSourceFactory = Callable[[CandidatesConfig, str], CandidateSource]

REGISTRY: dict[str, SourceFactory] = {
    RecycleSource.name: lambda config: RecycleSource(),
    SuffixSource.name: lambda config: SuffixSource(),
    "retrieval": retrieval_source,
}
NAMED: dict[str, NamedSourceFactory] = {corpus_name.KIND: corpus_source}
"""Kinds of sources of which there may be several: each is called ``KIND:NAME``."""


def build_sources(config: CandidatesConfig) -> list[CandidateSource]:
    """The named sources, in the config's order.

    Raises ValueError for a name that is not known, or stands for something that is not there.
    """
    unknown = [name for name in config.sources if not _is_known(name)]
    if unknown:
        known = [*sorted(REGISTRY), *(f"{kind}:NAME" for kind in NAMED)]
        raise ValueError(f"sources: unknown {unknown}; known are {known}")
    return [_build(config, name) for name in config.sources]


def _is_known(source: str) -> bool:
    kind, colon, _ = source.partition(":")
    return kind in NAMED if colon else kind in REGISTRY


def _build(config: CandidatesConfig, source: str) -> CandidateSource:
    kind, colon, name = source.partition(":")
    return NAMED[kind](config, name) if colon else REGISTRY[kind](config)
