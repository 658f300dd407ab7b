"""``medusa``: trains heads on hidden states of the target, and reports how well they guess."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.sources.medusa import MedusaSource
from dspark.candidates.sources.medusa_file import read_heads
from dspark.candidates.target_matrices import TargetMatrices
from dspark.features import FINAL_LAYER
from dspark.training.draft_anchors import AnchorBatch, DraftAnchors
from dspark.training.draft_vocabulary import draft_vocabulary
from dspark.training.guess_quality import fitted_temperatures, top1
from dspark.training.held_out import split
from dspark.training.medusa_model import NUM_HEADS, MedusaModel
from dspark.training.medusa_start import trained_heads
from dspark.training.medusa_validation import guesses_of, held_out_batches
from dspark.training.medusa_weights import write_weights
from dspark.training.optimisation import Optimisation, Schedule
from dspark.training.progress_file import SUFFIX, ProgressFile
from dspark.training.text_store import StoredText
from dspark.training.torch_threads import torch_threads
from dspark.training.trained_network import TrainedNetwork, acceptance_in_mixes
from dspark.training.trainer import Trainer, TrainingRun, TrainResult

ANCHORS_A_STEP = 512
RATE = 1e-3
# The temperatures are fitted on every few of the held-out batches.
FITTED_BATCHES = 3


class MedusaTrainer(Trainer):
    """``medusa.safetensors``."""

    def layers_of(self, model_dir: Path) -> tuple[int, ...]:
        return (FINAL_LAYER,)

    def train(self, run: TrainingRun) -> TrainResult:
        path = run.out / "medusa.safetensors"
        with torch_threads(run.threads):
            trained = _train(run, path)
        return trained.result(run, path, {"anchors_a_step": ANCHORS_A_STEP})


def _train(run: TrainingRun, path: Path) -> TrainedNetwork:
    meta = run.store.meta
    learned, held_out = split(run.store.texts())
    model, token_ids = _first_heads(run, learned)
    batches = held_out_batches(_anchors(run, held_out, token_ids))
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    _optimisation(run, model, _anchors(run, learned, token_ids), batches).run()
    some = batches[:: max(1, len(batches) // FITTED_BATCHES)]
    temperatures = fitted_temperatures(guesses_of(model, some))
    write_weights(path, model, token_ids, temperatures, meta.target_digest)
    heads = read_heads(LearnedWeights(path, meta.target_digest), run.model_dir)
    return TrainedNetwork(
        num_ids=len(token_ids),
        validation=top1(guesses_of(model, batches)),
        temperatures=temperatures.tolist(),
        acceptance=acceptance_in_mixes(MedusaSource(heads), meta, learned, held_out),
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
        validate=lambda: {"validation": top1(guesses_of(model, batches))},
        checkpoint=run.out / "medusa.checkpoint",
        progress=ProgressFile(run.out / f"medusa{SUFFIX}"),
        identity=run.identity,
        say=run.say,
        checkpoint_interval_s=run.checkpoint_interval_s,
    )
