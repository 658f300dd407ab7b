"""``ngram``: writes the table of the target's texts, and says how well it guesses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.sources.ngram_table import NgramTable, read_table, write_table
from dspark.candidates.target_matrices import TargetMatrices
from dspark.features import FINAL_LAYER
from dspark.training.likely_tokens import LikelyTokens
from dspark.training.ngram_counts import NgramText
from dspark.training.ngram_training import train_ngram
from dspark.training.text_store import StoredText
from dspark.training.torch_threads import torch_threads
from dspark.training.trainer import Trainer, TrainingRun, TrainResult, described, sentence

REPORT_INTERVAL_S = 5.0


class NgramTrainer(Trainer):
    """``ngram.bin``."""

    def layers_of(self, model_dir: Path) -> tuple[int, ...]:
        return (FINAL_LAYER,)

    def train(self, run: TrainingRun) -> TrainResult:
        meta, texts = run.store.meta, run.store.texts()
        start = _table_to_start_from(run)
        with torch_threads(run.threads):
            counted = _counted(run, texts)
        run.say(f"counting {run.store.num_answer_tokens:,} tokens")
        trained = train_ngram(
            texts, counted, meta.target_digest, meta.vocab_size, start, run.table_contexts
        )
        path = run.out / "ngram.bin"
        write_table(path, trained.table, meta.vocab_size, run.about)
        card = run.about | {
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


def _table_to_start_from(run: TrainingRun) -> NgramTable | None:
    if run.start_from is None:
        return None
    if run.start_from.resolve().is_relative_to(run.out.resolve()):
        raise ValueError(f"{run.start_from} has counted these texts; keep it in another directory")
    table = read_table(run.start_from)
    LearnedWeights(run.start_from, run.store.meta.target_digest).check(table.target_digest)
    return table


def _counted(run: TrainingRun, texts: Sequence[StoredText]) -> list[NgramText]:
    """The texts as they are counted: by what the target held for likely at each place."""
    layer = run.store.meta.layers.index(FINAL_LAYER)
    likely = LikelyTokens(TargetMatrices(run.model_dir), texts, layer)
    counted: list[NgramText] = []
    reported = time.monotonic()
    for text in texts:
        counted.append(likely.of(text))
        if time.monotonic() - reported > REPORT_INTERVAL_S:
            reported = time.monotonic()
            run.say(f"asking the target what else was likely: {len(counted)} of {len(texts)} texts")
    return counted
