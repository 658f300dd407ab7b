"""The one list of what can be trained, by the name of the source."""

from __future__ import annotations

from dspark.candidates.sources.ngram_table import write_table
from dspark.training.block_trainer import BlockTrainer
from dspark.training.medusa_trainer import MedusaTrainer
from dspark.training.ngram_training import train_ngram
from dspark.training.trainer import Trainer, TrainingRun, TrainResult, described, sentence


class NgramTrainer(Trainer):
    """``ngram.bin``."""

    def train(self, run: TrainingRun) -> TrainResult:
        run.say(f"counting {run.store.num_answer_tokens:,} tokens")
        meta = run.store.meta
        trained = train_ngram(run.store.texts(), meta.target_digest, meta.vocab_size)
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


TRAINERS: dict[str, Trainer] = {
    "ngram": NgramTrainer(),
    "medusa": MedusaTrainer(),
    "block": BlockTrainer(),
}
