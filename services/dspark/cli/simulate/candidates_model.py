"""What a simulated candidates service is like: what its sources guess, and what a call costs."""

from __future__ import annotations

from dataclasses import dataclass

from dspark.cli.simulate.checks import at_least
from dspark.cli.simulate.given_guesses import GivenGuesses
from dspark.cli.simulate.guesses import Guesses
from dspark.cli.simulate.recorded_guesses import RecordedGuesses, RecordedModel
from dspark.cli.simulate.source_model import SourceModel, TextKind


@dataclass(frozen=True, slots=True)
class CandidatesModel:
    """Guesses come from ``sources`` and ``kinds`` of texts, or from what was ``recorded``.

    A call costs ``call_ms`` and ``call_ms_per_request`` beside what sources say that they cost.
    """

    call_ms: float = 0.0
    call_ms_per_request: float = 0.0
    sources: tuple[SourceModel, ...] = ()
    kinds: tuple[TextKind, ...] = ()
    recorded: RecordedModel | None = None

    def __post_init__(self) -> None:
        at_least(0, self, "call_ms", "call_ms_per_request")
        if (self.recorded is None) == (not self.sources):
            raise ValueError("one of sources and recorded must be given, and not both")
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise ValueError("sources must differ in their names")
        if self.kinds and not sum(kind.share for kind in self.kinds) > 0:
            raise ValueError("kinds must have a share above 0")

    def guesses(self, seed: int) -> Guesses:
        if self.recorded is not None:
            return RecordedGuesses(self.recorded, seed)
        return GivenGuesses(self.sources, self.kinds, seed)
