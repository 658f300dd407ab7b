"""The one list of candidate sources by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.learned_weights import NoWeights, find_weights
from dspark.candidates.sources.interface import CandidateSource
from dspark.candidates.sources.medusa import MedusaSource
from dspark.candidates.sources.medusa_file import read_heads
from dspark.candidates.sources.ngram import NgramSource
from dspark.candidates.sources.ngram_table import read_table
from dspark.candidates.sources.recycle import RecycleSource
from dspark.candidates.sources.retrieval import retrieval_source
from dspark.candidates.sources.suffix import SuffixSource

log = logging.getLogger(__name__)

SourceFactory = Callable[[CandidatesConfig], CandidateSource]


def _ngram(config: CandidatesConfig) -> NgramSource:
    weights = find_weights("ngram.bin", config.ngram_table, config.model)
    table = read_table(weights.path)
    weights.check(table.target_digest)
    return NgramSource(table)


def _medusa(config: CandidatesConfig) -> MedusaSource:
    weights = find_weights("medusa.safetensors", config.medusa_weights, config.model)
    return MedusaSource(read_heads(weights, Path(config.model or "")))


REGISTRY: dict[str, SourceFactory] = {
    RecycleSource.name: lambda config: RecycleSource(),
    SuffixSource.name: lambda config: SuffixSource(),
    "retrieval": retrieval_source,
    NgramSource.name: _ngram,
    MedusaSource.name: _medusa,
}


def build_sources(config: CandidatesConfig) -> list[CandidateSource]:
    """The named sources, in the config's order; without names all that have what they need.

    Raises ValueError for a name that is not known, and for a named source without weights.
    """
    unknown = [name for name in config.sources if name not in REGISTRY]
    if unknown:
        raise ValueError(f"sources: unknown {unknown}; known are {sorted(REGISTRY)}")
    built: list[CandidateSource] = []
    for name in config.sources or REGISTRY:
        try:
            built.append(REGISTRY[name](config))
        except NoWeights as reason:
            if config.sources:
                raise ValueError(f"sources: {name} cannot run: {reason}") from reason
            log.info("no source %s: %s", name, reason)
        except OSError as error:
            raise ValueError(f"sources: {name} cannot run: {error}") from error
    return built
