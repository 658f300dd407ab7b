"""``block``: trains a network on hidden states of the target, and reports how well it guesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dspark.candidates.learned_weights import LearnedWeights
from dspark.candidates.safetensors_file import from_bfloat16
from dspark.candidates.sources.block.block_file import read_drafter
from dspark.candidates.sources.block.network import BlockSizes
from dspark.candidates.sources.block.source import BlockSource
from dspark.candidates.target_matrices import TargetMatrices
from dspark.features import FINAL_LAYER
from dspark.training.block_batches import BlockBatch, BlockTexts
from dspark.training.block_model import BlockModel
from dspark.training.block_sizes import layers_of, sizes_for
from dspark.training.block_weights import write_weights
from dspark.training.draft_vocabulary import draft_vocabulary
from dspark.training.guess_quality import Guesses, fitted_temperatures, top1
from dspark.training.held_out import split
from dspark.training.optimisation import Optimisation, Schedule
from dspark.training.progress_file import SUFFIX, ProgressFile
from dspark.training.text_store import StoredText
from dspark.training.torch_threads import torch_threads
from dspark.training.trained_network import TrainedNetwork, acceptance_in_mixes
from dspark.training.trainer import Trainer, TrainingRun, TrainResult

TEXTS_A_STEP = 8
BLOCKS_A_TEXT = 32
HELD_OUT_BLOCKS_A_TEXT = 32
# What comes first is tried in every round, what comes last seldom: of three steps one is on whole
# blocks, the others on the beginnings of blocks, which cost half as much.
WHOLE_BLOCKS_EVERY = 3
RATE = 1.2e-3
# The temperatures are fitted on every few of the held-out batches.
FITTED_BATCHES = 3


class BlockTrainer(Trainer):
    """``block.safetensors``."""

    def layers_of(self, model_dir: Path) -> tuple[int, ...]:
        return layers_of(model_dir)

    def train(self, run: TrainingRun) -> TrainResult:
        if run.start_from is not None:
            raise ValueError("--start-from: block is always trained anew")
        path = run.out / "block.safetensors"
        with torch_threads(run.threads):
            training = BlockTraining(run)
            training.optimise()
            trained = training.write(path)
        sizes = {"blocks_a_step": TEXTS_A_STEP * BLOCKS_A_TEXT} | asdict(training.sizes)
        return trained.result(run, path, sizes)


class BlockTraining:
    """One run. Raises ValueError for texts that will not do."""

    def __init__(self, run: TrainingRun) -> None:
        meta = run.store.meta
        self._run, self._meta = run, meta
        self.layers = layers_of(run.model_dir)
        if not set(self.layers) <= set(meta.layers):
            known = tuple(sorted(meta.layers))
            raise ValueError(
                f"the texts have the hidden states of layers {known}, not {self.layers}"
            )
        self._learned, self._held_out = split(run.store.texts())
        self._token_ids = draft_vocabulary(self._learned, meta.vocab_size, run.special_ids)
        self.sizes: BlockSizes = sizes_for(run.model_dir)
        self._texts = self._blocks_of(self._learned)
        if not len(self._texts):
            raise ValueError("the texts are too short")
        self._batches = self._blocks_of(self._held_out).held_out(
            TEXTS_A_STEP, HELD_OUT_BLOCKS_A_TEXT
        )
        torch.manual_seed(run.seed)
        self.model = BlockModel(self.sizes, TargetMatrices(run.model_dir), self._token_ids)
        self.model.start_at(self._final_states())
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")

    def optimise(self) -> None:
        """All steps that are left."""
        run, model = self._run, self.model
        Optimisation(
            model=model,
            groups=model.parameter_groups(RATE),
            schedule=Schedule(run.steps),
            loss_at=self._loss_at,
            validate=lambda: {"validation": top1(self._guesses(self._batches))},
            checkpoint=run.out / "block.checkpoint",
            progress=ProgressFile(run.out / f"block{SUFFIX}"),
            identity=run.identity,
            say=run.say,
            checkpoint_interval_s=run.checkpoint_interval_s,
        ).run()

    def write(self, path: Path) -> TrainedNetwork:
        """The weights, and how well the source guesses with what was written."""
        meta = self._meta
        some = self._batches[:: max(1, len(self._batches) // FITTED_BATCHES)]
        temperatures = fitted_temperatures(self._guesses(some))
        write_weights(
            path, self.model, self._token_ids, temperatures, meta.target_digest, self.layers
        )
        drafter = read_drafter(LearnedWeights(path, meta.target_digest), self._run.model_dir)
        return TrainedNetwork(
            num_ids=len(self._token_ids),
            validation=top1(self._guesses(self._batches)),
            temperatures=temperatures.tolist(),
            acceptance=acceptance_in_mixes(
                BlockSource(drafter), meta, self._learned, self._held_out
            ),
        )

    def _loss_at(self, step: int) -> Tensor:
        batch = self._texts.sample(TEXTS_A_STEP, BLOCKS_A_TEXT, (self._run.seed, step))
        num_slots = self.sizes.num_slots
        if step % WHOLE_BLOCKS_EVERY:
            num_slots = -(-num_slots // 2)
        return self.model.loss(batch.first_slots(num_slots))

    def _blocks_of(self, texts: Sequence[StoredText]) -> BlockTexts:
        places = [self._meta.layers.index(layer) for layer in self.layers]
        size, window = self.sizes.num_slots, self.sizes.window
        return BlockTexts(texts, places, self._token_ids, self._meta.vocab_size, size, window)

    def _final_states(self) -> NDArray[np.float32]:
        """Of some texts, [num_tokens, hidden_size]."""
        layer = self._meta.layers.index(FINAL_LAYER)
        rows = [text.features[:, layer] for text in self._learned[:TEXTS_A_STEP]]
        return from_bfloat16(np.concatenate(rows))

    def _guesses(self, batches: Sequence[BlockBatch]) -> Iterator[Guesses]:
        with torch.no_grad():
            for batch in batches:
                base, bias = self.model.base_logits(batch), self.model.bias(batch)
                labels = batch.labels.reshape(-1, self.sizes.num_slots)
                yield Guesses(labels, base.cpu().numpy(), bias.cpu().numpy())
