"""The one list of candidate sources by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.learned_sources import LEARNED, fitting_table
from dspark.candidates.learned_weights import NoWeights
from dspark.candidates.sources import corpus_name
from dspark.candidates.sources.corpus import corpus_source
from dspark.candidates.sources.interface import CandidateSource
from dspark.candidates.sources.medusa import MedusaSource
from dspark.candidates.sources.medusa_file import read_heads
from dspark.candidates.sources.ngram import NgramSource
from dspark.candidates.sources.recycle import RecycleSource
from dspark.candidates.sources.retrieval import retrieval_source
from dspark.candidates.sources.suffix import SuffixSource

log = logging.getLogger(__name__)

SourceFactory = Callable[[CandidatesConfig], CandidateSource]
NamedSourceFactory = Callable[[CandidatesConfig, str], CandidateSource]


def _ngram(config: CandidatesConfig) -> NgramSource:
    weights = LEARNED["ngram"].weights(config)
    return NgramSource(fitting_table(weights, Path(config.model or "")))


def _medusa(config: CandidatesConfig) -> MedusaSource:
    weights = LEARNED["medusa"].weights(config)
    return MedusaSource(read_heads(weights, Path(config.model or "")))


def _draft(config: CandidatesConfig) -> CandidateSource:
    weights = LEARNED["draft"].weights(config)
    try:
        # Only this source needs them, and they take seconds to import.
        from dspark.candidates.draft_model.source import draft_source
    except ModuleNotFoundError as error:
        raise NoWeights(f"it needs {error.name}, which is not installed") from error
    return draft_source(weights, Path(config.model or ""), config.draft_kv_tokens)


def _block(config: CandidatesConfig) -> CandidateSource:
    weights = LEARNED["block"].weights(config)
    # torch takes seconds to import, and need not be there for the other sources.
    try:
        from dspark.candidates.sources.block.block_file import read_drafter
        from dspark.candidates.sources.block.source import BlockSource
    except ModuleNotFoundError as error:
        raise NoWeights(f"it needs {error.name}, which is not installed") from error
    return BlockSource(read_drafter(weights, Path(config.model or "")))


REGISTRY: dict[str, SourceFactory] = {
    RecycleSource.name: lambda config: RecycleSource(),
    SuffixSource.name: lambda config: SuffixSource(),
    "retrieval": retrieval_source,
    NgramSource.name: _ngram,
    MedusaSource.name: _medusa,
    "draft": _draft,
    "block": _block,
}
# Those that cost next to nothing to ask. A network pays only where the verifier runs elsewhere, or
# where its guesses are better than what it costs: see docs/benchmarks.md.
DEFAULT = (RecycleSource.name, SuffixSource.name, "retrieval", NgramSource.name)
NAMED: dict[str, NamedSourceFactory] = {corpus_name.KIND: corpus_source}
"""Kinds of sources of which there may be several: each is called ``KIND:NAME``."""


def build_sources(config: CandidatesConfig) -> list[CandidateSource]:
    """The named sources, in the config's order; without names the default ones that can run.

    Raises ValueError for a name that is not known, or stands for something that is not there.
    """
    check_names(config)
    if config.sources:
        return [_build_named(config, name) for name in config.sources]
    corpora = map(corpus_name.source_name, config.corpus_files)
    found = (_build_if_possible(config, name) for name in (*DEFAULT, *corpora))
    return [source for source in found if source is not None]


def check_names(config: CandidatesConfig) -> None:
    """Raises ValueError for a name that is not known."""
    unknown = [name for name in config.sources if not _is_known(name)]
    if unknown:
        known = ", ".join([*sorted(REGISTRY), *(f"{kind}:NAME" for kind in NAMED)])
        raise ValueError(f"sources: unknown {', '.join(unknown)}; known are {known}")


def _is_known(source: str) -> bool:
    kind, colon, _ = source.partition(":")
    return kind in NAMED if colon else kind in REGISTRY


def _build(config: CandidatesConfig, source: str) -> CandidateSource:
    kind, colon, name = source.partition(":")
    try:
        return NAMED[kind](config, name) if colon else REGISTRY[kind](config)
    except OSError as error:
        raise ValueError(f"sources: {source} cannot run: {error}") from error


def _build_named(config: CandidatesConfig, source: str) -> CandidateSource:
    try:
        return _build(config, source)
    except NoWeights as reason:
        raise ValueError(f"sources: {source} cannot run: {reason}") from reason


def _build_if_possible(config: CandidatesConfig, source: str) -> CandidateSource | None:
    try:
        return _build(config, source)
    except NoWeights as reason:
        log.info("no source %s: %s", source, reason)
        return None
