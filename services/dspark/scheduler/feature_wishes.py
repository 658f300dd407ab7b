"""Which features a step asks of a verifier: what candidates want of what it exports."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from dspark.proposal import CandidatesInfo

log = logging.getLogger(__name__)

# Features of all requests of a step together: well within a message, whatever candidates want.
MAX_BYTES = 16 * 1024 * 1024
_ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class FeatureWish:
    """These layers of at most ``num_tokens`` tokens of each request; 0 is a wish for none."""

    layers: tuple[int, ...] = ()
    num_tokens: int = 0


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

    def wish(self, info: CandidatesInfo, num_requests: int) -> FeatureWish:
        """What to ask for each of so many requests."""
        if not num_requests or not self.are_wanted(info):
            return NO_FEATURES
        layers = info.feature_layers
        token_bytes = _ELEMENT_BYTES * self._hidden_size * len(layers)
        num_tokens = min(info.num_features, MAX_BYTES // (token_bytes * num_requests))
        return FeatureWish(layers, num_tokens) if num_tokens else NO_FEATURES
