"""The one list of what can be trained, by the name of the source."""

from __future__ import annotations

from dspark.training.block_trainer import BlockTrainer
from dspark.training.draft_trainer import DraftTrainer
from dspark.training.medusa_trainer import MedusaTrainer
from dspark.training.ngram_trainer import NgramTrainer
from dspark.training.trainer import Trainer

TRAINERS: dict[str, Trainer] = {
    "ngram": NgramTrainer(),
    "medusa": MedusaTrainer(),
    "block": BlockTrainer(),
    "draft": DraftTrainer(),
}
