"""``medusa``: trains heads on hidden states of the target, and reports how well they guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.sources.interface import CandidateSource
from dspark.candidates.sources.medusa import MedusaSource
from dspark.candidates.sources.medusa_file import read_heads
from dspark.candidates.sources.ngram import NgramSource
from dspark.candidates.sources.suffix import SuffixSource
from dspark.candidates.target_matrices import TargetMatrices
from dspark.features import FINAL_LAYER
from dspark.training.draft_anchors import AnchorBatch, DraftAnchors
from dspark.training.draft_vocabulary import draft_vocabulary
from dspark.training.held_out import acceptance_of, split
from dspark.training.medusa_model import NUM_HEADS, MedusaModel
from dspark.training.medusa_start import trained_heads
from dspark.training.medusa_validation import fitted_temperatures, held_out_batches, top1
from dspark.training.medusa_weights import write_weights
from dspark.training.ngram_training import table_of
from dspark.training.optimisation import Optimisation, Schedule
from dspark.training.progress_file import SUFFIX, ProgressFile
from dspark.training.replay import Acceptance
from dspark.training.text_store import StoredText
from dspark.training.torch_threads import torch_threads
from dspark.training.trainer import Trainer, TrainingRun, TrainResult, described, sentence

ANCHORS_A_STEP = 512
RATE = 1e-3


@dataclass(frozen=True, slots=True)
class TrainedHeads:
    """What is reported of heads: by head on held-out texts, and in the loop of decoding."""

    num_ids: int
    validation: list[float]
    temperatures: list[float]
    acceptance: dict[str, Acceptance]


class MedusaTrainer(Trainer):
    """``medusa.safetensors``."""

    layers = (FINAL_LAYER,)

    def train(self, run: TrainingRun) -> TrainResult:
        path = run.out / "medusa.safetensors"
        with torch_threads(run.threads):
            trained = _train(run, path)
        card = run.about | {
            "steps": run.steps,
            "anchors_a_step": ANCHORS_A_STEP,
            "draft_vocabulary": trained.num_ids,
            "bytes": path.stat().st_size,
            "validation_top1": trained.validation,
            "temperatures": trained.temperatures,
            **{name: described(acceptance) for name, acceptance in trained.acceptance.items()},
        }
        shares = " ".join(f"{share:.3f}" for share in trained.validation)
        lines = [
            f"{path}: {path.stat().st_size:,} bytes, {trained.num_ids:,} tokens",
            f"held out, first guess right by head: {shares}",
        ]
        for name, acceptance in trained.acceptance.items():
            lines.append(f"held out, {name.replace('_', ' ')}: {sentence(acceptance)}")
        return TrainResult(card, lines)


def _train(run: TrainingRun, path: Path) -> TrainedHeads:
    meta = run.store.meta
    learned, held_out = split(run.store.texts())
    model, token_ids = _first_heads(run, learned)
    batches = held_out_batches(_anchors(run, held_out, token_ids))
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    _optimisation(run, model, _anchors(run, learned, token_ids), batches).run()
    temperatures = fitted_temperatures(model, batches)
    write_weights(path, model, token_ids, temperatures, meta.target_digest)
    return TrainedHeads(
        num_ids=len(token_ids),
        validation=top1(model, batches),
        temperatures=[round(float(value), 2) for value in temperatures],
        acceptance=_acceptance(run, path, learned, held_out),
    )


def _first_heads(
    run: TrainingRun, learned: Sequence[StoredText]
) -> tuple[MedusaModel, NDArray[np.int64]]:
    """The heads to start from, and their draft vocabulary."""
    meta = run.store.meta
    if run.start_from is not None:
        return trained_heads(run.start_from, run.model_dir, meta.target_digest)
    token_ids = draft_vocabulary(learned, meta.vocab_size, run.special_ids)
    torch.manual_seed(run.seed)
    return MedusaModel(TargetMatrices(run.model_dir), token_ids), token_ids


def _anchors(
    run: TrainingRun, texts: Sequence[StoredText], token_ids: NDArray[np.int64]
) -> DraftAnchors:
    meta = run.store.meta
    layer = meta.layers.index(FINAL_LAYER)
    return DraftAnchors(texts, layer, token_ids, meta.vocab_size, NUM_HEADS)


def _optimisation(
    run: TrainingRun, model: MedusaModel, anchors: DraftAnchors, batches: Sequence[AnchorBatch]
) -> Optimisation:
    """Raises ValueError if there is nothing to learn from."""
    if not len(anchors):
        raise ValueError("the texts are too short")
    return Optimisation(
        model=model,
        groups=model.parameter_groups(RATE),
        schedule=Schedule(run.steps),
        loss_at=lambda step: model.loss(anchors.sample(ANCHORS_A_STEP, (run.seed, step))),
        validate=lambda: {"validation": top1(model, batches)},
        checkpoint=run.out / "medusa.checkpoint",
        progress=ProgressFile(run.out / f"medusa{SUFFIX}"),
        identity={
            "seed": run.seed,
            "steps": run.steps,
            "texts": len(run.store),
            "tokens": run.store.num_tokens,
            "target": run.store.meta.target_digest,
            "start_from": str(run.start_from),
        },
        say=run.say,
        checkpoint_interval_s=run.checkpoint_interval_s,
    )


def _acceptance(
    run: TrainingRun, path: Path, learned: Sequence[StoredText], texts: Sequence[StoredText]
) -> dict[str, Acceptance]:
    """Of the weights as they were written, alone and together with other sources."""
    meta = run.store.meta
    heads = read_heads(LearnedWeights(path, meta.target_digest), run.model_dir)
    # Not the table in ``out``, which has counted the texts that are held out here.
    ngram = NgramSource(table_of(learned, meta.target_digest))
    mixes: dict[str, list[CandidateSource]] = {
        "alone": [],
        "with_suffix": [SuffixSource()],
        "with_ngram_and_suffix": [ngram, SuffixSource()],
    }
    return {
        name: acceptance_of([MedusaSource(heads), *more], texts, meta.vocab_size, meta.layers)
        for name, more in mixes.items()
    }
