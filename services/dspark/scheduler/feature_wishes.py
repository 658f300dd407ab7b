"""Which features a step asks of a verifier: what candidates want of what it exports."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from dspark.proposal import CandidatesInfo
from dspark.sampling import SpeculationParams

log = logging.getLogger(__name__)

# Features of all requests of a step together: well within a message, whatever candidates want.
MAX_BYTES = 16 * 1024 * 1024
_ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class FeatureWish:
    """These layers of at most ``num_tokens`` tokens of each request that may ask one of
    ``sources``; 0 is a wish for none.
    """

    layers: tuple[int, ...] = ()
    num_tokens: int = 0
    sources: tuple[str, ...] = ()

    def of(self, speculation: SpeculationParams) -> int:
        """Of how many tokens of a request with these parameters."""
        return self.num_tokens if _may_ask(speculation, self.sources) else 0


NO_FEATURES = FeatureWish()


class FeatureWishes:
    """Of one verifier, which exports ``exported`` layers of hidden states of ``hidden_size``."""

    def __init__(self, exported: tuple[int, ...] = (), hidden_size: int = 0) -> None:
        self._exported = frozenset(exported) if hidden_size else frozenset()
        self._hidden_size = hidden_size
        self._refused: tuple[int, ...] = ()

    def are_wanted(self, info: CandidatesInfo) -> bool:
        """Whether candidates want features that can be had; says once if they cannot be had."""
        layers = info.feature_layers
        if not layers or not info.num_features:
            return False
        if list(layers) == sorted(set(layers)) and self._exported.issuperset(layers):
            return True
        if layers != self._refused:
            self._refused = layers
            log.warning("candidates get no features: the verifier cannot export layers %s", layers)
        return False

    def wish(self, info: CandidatesInfo, requests: Iterable[SpeculationParams]) -> FeatureWish:
        """What to ask in a step with such requests."""
        if not self.are_wanted(info):
            return NO_FEATURES
        layers, sources = info.feature_layers, info.feature_sources
        num_requests = sum(_may_ask(each, sources) for each in requests)
        if not num_requests:
            return NO_FEATURES
        token_bytes = _ELEMENT_BYTES * self._hidden_size * len(layers)
        num_tokens = min(info.num_features, MAX_BYTES // (token_bytes * num_requests))
        return FeatureWish(layers, num_tokens, sources) if num_tokens else NO_FEATURES


def _may_ask(speculation: SpeculationParams, feature_sources: tuple[str, ...]) -> bool:
    """Candidates that do not say which sources want features may mean all."""
    named = speculation.sources
    asks_all = not named or not feature_sources
    return speculation.enabled and (asks_all or not set(named).isdisjoint(feature_sources))
