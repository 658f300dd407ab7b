"""The sources that run with any target, without weights that fit it."""

from __future__ import annotations

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.registry import build_sources

UNTRAINED = tuple(source.name for source in build_sources(CandidatesConfig()))
