"""What a trainer is, and what it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dspark.training.replay import Acceptance
from dspark.training.text_store import TextStore


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """``about`` goes into the card. ``steps``, ``threads`` (0: all) and ``seed`` are for trainers
    that optimise, ``draft_layers`` for that of draft models, ``table_contexts`` for
    that of tables; ``special_ids`` are the tokenizer's;
    ``start_from`` has earlier weights of the source, for the same target.
    """

    store: TextStore
    model_dir: Path
    out: Path
    about: dict[str, Any]
    say: Callable[[str], None]
    special_ids: frozenset[int] = frozenset()
    steps: int = 900
    threads: int = 0
    seed: int = 0
    draft_layers: int = 3
    table_contexts: int = 640_000
    checkpoint_interval_s: float = 60.0
    start_from: Path | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must be of for this run to go on from it."""
        return {
            "seed": self.seed,
            "steps": self.steps,
            "texts": len(self.store),
            "tokens": self.store.num_tokens,
            "target": self.store.meta.target_digest,
            "start_from": str(self.start_from),
        }


@dataclass(frozen=True, slots=True)
class TrainResult:
    """What the card says of the source, and lines to show."""

    card: Mapping[str, Any]
    lines: list[str]


class Trainer(Protocol):
    """Trains one source on a store of texts."""

    def layers_of(self, model_dir: Path) -> tuple[int, ...]:
        """The layers, numbered as in dspark.features, whose hidden states it needs of each token of
        the target in ``model_dir``. Raises ValueError, OSError.
        """
        return ()

    def train(self, run: TrainingRun) -> TrainResult:
        """Write the weights to ``out``. Raises ValueError for texts that will not do."""
        ...


def reported(acceptance: Mapping[str, Acceptance]) -> TrainResult:
    """Of each mix of sources: entries of the card, and lines."""
    return TrainResult(
        {mix: described(each) for mix, each in acceptance.items()},
        [
            f"held out, {mix.replace('_', ' ')}: {sentence(each)}"
            for mix, each in acceptance.items()
        ],
    )


def described(acceptance: Acceptance) -> dict[str, Any]:
    """An acceptance as a card has it."""
    return {
        "acceptance_length": round(acceptance.acceptance_length, 3),
        "conditional_acceptance": [round(share, 3) for share in acceptance.conditional],
        "calibration_error": round(acceptance.calibration_error, 4),
        "rounds": acceptance.num_rounds,
    }


def sentence(acceptance: Acceptance) -> str:
    """The same for a person."""
    shares = " ".join(f"{share:.2f}" for share in acceptance.conditional[:6])
    return (
        f"{acceptance.acceptance_length:.2f} tokens a pass, by depth {shares}, "
        f"calibration error {acceptance.calibration_error:.1%}"
    )
