"""``draft``: trains a small copy of the target on its texts, and reports how well it guesses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dspark.candidates.draft_model.draft_directory import read_draft_directory
from dspark.candidates.draft_model.source import DraftSource, draft_source
from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.sources.interface import CandidateSource
from dspark.candidates.sources.ngram import NgramSource
from dspark.candidates.sources.suffix import SuffixSource
from dspark.training.draft_student import DraftStudent, first_layers_of, trained_student
from dspark.training.draft_validation import fitted_error_scale, held_out_batches, top1
from dspark.training.draft_vocabulary import draft_vocabulary
from dspark.training.draft_weights import write_draft
from dspark.training.held_out import acceptance_of, split
from dspark.training.ngram_training import table_of
from dspark.training.optimisation import Optimisation, Schedule
from dspark.training.progress_file import SUFFIX, ProgressFile
from dspark.training.replay import Acceptance
from dspark.training.text_batches import TextBatch, TextBatches
from dspark.training.text_store import StoredText
from dspark.training.torch_threads import torch_threads
from dspark.training.trainer import Trainer, TrainingRun, TrainResult, reported

TEXTS_A_STEP = 4
MAX_TOKENS = 512
RATE = 5e-4
# A network is asked in every round of the replay, so fewer texts than of cheap sources.
MAX_REPLAYED = 16
_KV_TOKENS = 1 << 16


@dataclass(frozen=True, slots=True)
class TrainedDraft:
    """What is reported of a draft model: on held-out texts, and in the loop of decoding."""

    num_layers: int
    num_ids: int
    top1: float
    error_scale: float
    acceptance: dict[str, Acceptance]


class DraftTrainer(Trainer):
    """The directory ``draft``."""

    def train(self, run: TrainingRun) -> TrainResult:
        path = run.out / "draft"
        with torch_threads(run.threads):
            trained = _train(run, path)
        size = sum(file.stat().st_size for file in path.iterdir())
        report = reported(trained.acceptance)
        card = run.about | {
            "steps": run.steps,
            "texts_a_step": TEXTS_A_STEP,
            "layers": trained.num_layers,
            "draft_vocabulary": trained.num_ids,
            "bytes": size,
            "validation_top1": trained.top1,
            "error_scale": trained.error_scale,
            **report.card,
        }
        lines = [
            f"{path}: {size:,} bytes, {trained.num_layers} layers, {trained.num_ids:,} tokens",
            f"held out, first guess right: {trained.top1:.3f}",
            *report.lines,
        ]
        return TrainResult(card, lines)


def _train(run: TrainingRun, path: Path) -> TrainedDraft:
    learned, held_out = split(run.store.texts())
    batches = held_out_batches(TextBatches(held_out, MAX_TOKENS))
    token_ids = draft_vocabulary(learned, run.store.meta.vocab_size, run.special_ids)
    student = DraftStudent(_first_model(run), token_ids)
    student.to("cuda" if torch.cuda.is_available() else "cpu")
    # Nothing in it is random, so every step is the same in a run that goes on.
    student.eval()
    _optimisation(run, student, TextBatches(learned, MAX_TOKENS), batches).run()
    error_scale = fitted_error_scale(student, batches)
    write_draft(path, student, run.model_dir, run.store.meta.target_digest, error_scale)
    return TrainedDraft(
        num_layers=int(student.model.config.num_hidden_layers),
        num_ids=len(token_ids),
        top1=top1(student, batches),
        error_scale=error_scale,
        acceptance=_acceptance(run, path, learned, held_out),
    )


def _first_model(run: TrainingRun) -> Any:
    if run.start_from is None:
        return first_layers_of(run.model_dir, run.draft_layers)
    weights = LearnedWeights(run.start_from, run.store.meta.target_digest)
    directory = read_draft_directory(weights, run.model_dir)
    if directory.token_ids is None:
        raise ValueError(f"{run.start_from} is no draft model that was trained for this target")
    return trained_student(directory.path)


def _optimisation(
    run: TrainingRun, student: DraftStudent, texts: TextBatches, batches: Sequence[TextBatch]
) -> Optimisation:
    """Raises ValueError if there is nothing to learn from."""
    if not len(texts):
        raise ValueError("the texts are too short")
    return Optimisation(
        model=student,
        groups=[{"params": student.trained_parameters(), "lr": RATE}],
        schedule=Schedule(run.steps),
        loss_at=lambda step: student.loss(texts.sample(TEXTS_A_STEP, (run.seed, step))),
        validate=lambda: {"validation": [top1(student, batches)]},
        checkpoint=run.out / "draft.checkpoint",
        progress=ProgressFile(run.out / f"draft{SUFFIX}"),
        identity=run.identity | {"layers": run.draft_layers},
        say=run.say,
        checkpoint_interval_s=run.checkpoint_interval_s,
    )


def _acceptance(
    run: TrainingRun, path: Path, learned: Sequence[StoredText], texts: Sequence[StoredText]
) -> dict[str, Acceptance]:
    """Of the weights as they were written, alone and together with other sources."""
    meta = run.store.meta
    # Not the table in ``out``, which has counted the texts that are held out here.
    ngram = NgramSource(table_of(learned, meta.target_digest))
    mixes: dict[str, list[CandidateSource]] = {
        "alone": [],
        "with_ngram_and_suffix": [ngram, SuffixSource()],
    }
    found: dict[str, Acceptance] = {}
    for name, more in mixes.items():
        run.say(f"replaying held-out texts, {name.replace('_', ' ')}")
        draft = _source(run, path)
        found[name] = acceptance_of([draft, *more], texts[:MAX_REPLAYED], meta.vocab_size)
        asyncio.run(draft.close())
    return found


def _source(run: TrainingRun, path: Path) -> DraftSource:
    weights = LearnedWeights(path, run.store.meta.target_digest)
    return draft_source(weights, run.model_dir, _KV_TOKENS)
