"""Brings features to the sources that asked for them, as far as they fit a live sequence."""

from __future__ import annotations

from collections.abc import Sequence

from dspark.candidates.layer_choice import union_of, with_layers
from dspark.candidates.sequence import LiveSequence
from dspark.candidates.source_runner import SourceRunner
from dspark.proposal import SequenceFeatures


class FeatureDelivery:
    """What all sources need together, and who gets what of it."""

    def __init__(self, runners: Sequence[SourceRunner]) -> None:
        self._takers = [r for r in runners if r.source.feature_layers and r.source.num_features]
        self.layers = union_of(runner.source.feature_layers for runner in self._takers)
        self.source_names = tuple(runner.name for runner in self._takers)
        self.num_features = max((r.source.num_features for r in self._takers), default=0)
        # of another sequence, epoch or shape, or beyond the sequence's end
        self.num_dropped = 0

    def deliver(self, sequence: LiveSequence | None, given: SequenceFeatures) -> None:
        """``sequence`` is the one of that request, if it is known."""
        if sequence is None or not self._fits(sequence, given):
            self.num_dropped += 1
            return
        for runner in self._takers:
            source = runner.source
            latest = given.features.last(source.num_features)
            chosen = with_layers(latest, self.layers, source.feature_layers)
            runner.tell(source.observe_features, sequence, chosen)

    def _fits(self, sequence: LiveSequence, given: SequenceFeatures) -> bool:
        is_of_it = sequence.epoch == given.epoch and given.features.end <= len(sequence)
        return is_of_it and given.features.shape[1] == len(self.layers)
