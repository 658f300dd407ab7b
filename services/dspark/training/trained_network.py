"""What is reported of a network that guesses several places ahead, and how it is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspark.candidates.sources.interface import CandidateSource
from dspark.candidates.sources.ngram import NgramSource
from dspark.candidates.sources.suffix import SuffixSource
from dspark.training.held_out import acceptance_of
from dspark.training.ngram_training import table_of
from dspark.training.replay import Acceptance
from dspark.training.text_store import StoredText, StoreMeta
from dspark.training.trainer import TrainingRun, TrainResult, reported


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """By place ahead on held-out texts, and in the loop of decoding; ``num_ids`` is the size of the
    draft vocabulary.
    """

    num_ids: int
    validation: list[float]
    temperatures: Sequence[float]
    acceptance: dict[str, Acceptance]

    def result(self, run: TrainingRun, path: Path, sizes: dict[str, Any]) -> TrainResult:
        """Of weights at ``path``; ``sizes`` are those of the training, for the card."""
        report = reported(self.acceptance)
        card = run.about | {
            "steps": run.steps,
            **sizes,
            "draft_vocabulary": self.num_ids,
            "bytes": path.stat().st_size,
            "validation_top1": self.validation,
            "temperatures": [round(float(value), 2) for value in self.temperatures],
            **report.card,
        }
        shares = " ".join(f"{share:.3f}" for share in self.validation)
        lines = [
            f"{path}: {path.stat().st_size:,} bytes, {self.num_ids:,} tokens",
            f"held out, first guess right by place: {shares}",
            *report.lines,
        ]
        return TrainResult(card, lines)


def acceptance_in_mixes(
    source: CandidateSource,
    meta: StoreMeta,
    learned: Sequence[StoredText],
    held_out: Sequence[StoredText],
) -> dict[str, Acceptance]:
    """Of a source alone and together with others."""
    # Not the table that ships or was trained, which has counted the texts that are held out here.
    ngram = NgramSource(table_of(learned, meta.target_digest))
    mixes: dict[str, Iterable[CandidateSource]] = {
        "alone": [],
        "with_suffix": [SuffixSource()],
        "with_ngram_and_suffix": [ngram, SuffixSource()],
    }
    return {
        name: acceptance_of([source, *more], held_out, meta.vocab_size, meta.layers)
        for name, more in mixes.items()
    }
