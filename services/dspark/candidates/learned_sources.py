"""The learned sources: which setting names their weights, and how to tell if a file fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dspark.candidates.config import CandidatesConfig
from dspark.candidates.draft_model.draft_directory import read_draft_directory
from dspark.candidates.learned_weights import LearnedWeights, find_weights
from dspark.candidates.safetensors_file import SafetensorsFile
from dspark.candidates.sources.ngram_table import NgramTable, read_table


@dataclass(frozen=True, slots=True)
class LearnedSource:
    """``check(weights, model_dir)`` raises ValueError or OSError for weights that do not fit.

    It reads what is quick to read: a file that passes can still be damaged.
    """

    setting: str
    file_name: str
    check: Callable[[LearnedWeights, Path], object]

    def given(self, config: CandidatesConfig) -> str | None:
        """The weights that the config names."""
        path: str | None = getattr(config, self.setting)
        return path

    def weights(self, config: CandidatesConfig) -> LearnedWeights:
        """Those, else the ones that ship for the target; raises NoWeights."""
        return find_weights(self.file_name, self.given(config), config.model)


def fitting_table(weights: LearnedWeights, model_dir: Path) -> NgramTable:
    """The table; raises ValueError or OSError for one that does not fit."""
    table = read_table(weights.path)
    weights.check(table.target_digest)
    return table


def _check_digest(weights: LearnedWeights, model_dir: Path) -> None:
    # Heads in the layout of Medusa's do not say which target they fit.
    if digest := SafetensorsFile(weights.path).metadata.get("target_digest"):
        weights.check(digest)


LEARNED: dict[str, LearnedSource] = {
    "ngram": LearnedSource("ngram_table", "ngram.bin", fitting_table),
    "medusa": LearnedSource("medusa_weights", "medusa.safetensors", _check_digest),
    "draft": LearnedSource("draft_model", "draft", read_draft_directory),
    "block": LearnedSource("block_weights", "block.safetensors", _check_digest),
}
