"""The one list of what can be trained, by the name of the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dspark.candidates.sources.ngram_table import write_table
from dspark.training.ngram_training import train_ngram
from dspark.training.replay import Acceptance
from dspark.training.text_store import TextStore


@dataclass(frozen=True, slots=True)
class TrainResult:
    """What the card says of the source, and lines to show."""

    card: Mapping[str, Any]
    lines: list[str]


class Trainer(Protocol):
    """Trains one source on a store of texts."""

    layers: tuple[int, ...] = ()
    """Hidden states that it needs of each token, numbered as in dspark.features."""

    def train(
        self, store: TextStore, out: Path, about: dict[str, Any], say: Callable[[str], None]
    ) -> TrainResult:
        """Write the weights to ``out``. Raises ValueError for texts that will not do."""
        ...


class NgramTrainer(Trainer):
    """``ngram.bin``."""

    def train(
        self, store: TextStore, out: Path, about: dict[str, Any], say: Callable[[str], None]
    ) -> TrainResult:
        say(f"counting {store.num_answer_tokens:,} tokens")
        meta = store.meta
        trained = train_ngram(store.texts(), meta.target_digest, meta.vocab_size)
        path = out / "ngram.bin"
        write_table(path, trained.table, meta.vocab_size, about)
        card = about | {
            "contexts": trained.table.num_contexts,
            "bytes": path.stat().st_size,
            "alone": described(trained.alone),
            "with_suffix": described(trained.with_suffix),
        }
        lines = [
            f"{path}: {trained.table.num_contexts:,} contexts, {path.stat().st_size:,} bytes",
            f"held out, alone: {sentence(trained.alone)}",
            f"held out, with suffix: {sentence(trained.with_suffix)}",
        ]
        return TrainResult(card, lines)


def described(acceptance: Acceptance) -> dict[str, Any]:
    """An acceptance as a card has it."""
    return {
        "acceptance_length": round(acceptance.acceptance_length, 3),
        "conditional_acceptance": [round(share, 3) for share in acceptance.conditional],
        "calibration_error": round(acceptance.calibration_error, 4),
        "rounds": acceptance.num_rounds,
    }


def sentence(acceptance: Acceptance) -> str:
    shares = " ".join(f"{share:.2f}" for share in acceptance.conditional[:6])
    return (
        f"{acceptance.acceptance_length:.2f} tokens a pass, by depth {shares}, "
        f"calibration error {acceptance.calibration_error:.1%}"
    )


TRAINERS: dict[str, Trainer] = {"ngram": NgramTrainer()}
