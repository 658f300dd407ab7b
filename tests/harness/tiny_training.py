"""Trainings that take seconds: a tiny target, texts that count up, and a run that is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspark.candidates.target_digest import target_digest
from dspark.training.text_store import StoreMeta, TextStore
from dspark.training.trainer import TrainingRun, TrainResult
from dspark.training.trainers import TRAINERS
from harness.tiny_models import VOCAB_SIZE

HIDDEN = 48


def counting_texts(folder: Path, model: Path, layers: tuple[int, ...] = ()) -> TextStore:
    """Texts that count up in steps of three, with hidden states that tell the token."""
    store = TextStore(folder, StoreMeta(target_digest(model), VOCAB_SIZE, HIDDEN, layers))
    random = np.random.default_rng(0)
    shape = (VOCAB_SIZE, len(layers), HIDDEN)
    states = random.standard_normal(shape, dtype=np.float32).view(np.uint32) >> 16
    for start in range(40):
        token_ids = (start + 3 * np.arange(30)) % 60
        store.append(token_ids.tolist(), 6, states[token_ids[:-1]].astype(np.uint16))
    return store


def train(source: str, store: TextStore, model: Path, out: Path, **settings: Any) -> TrainResult:
    """One training on one thread; ``settings`` are those of TrainingRun."""
    run = TrainingRun(store, model, out, {}, lambda line: None, **{"threads": 1, **settings})
    return TRAINERS[source].train(run)


def kill_at_sample(monkeypatch: pytest.MonkeyPatch, sampler: type[Any], count: int) -> list[int]:
    """The sample with this number, from 1, raises KeyboardInterrupt. Returns a list to which each
    sample adds its step, which is the last part of the seed, its last argument.
    """
    sample = sampler.sample
    steps: list[int] = []

    def killed(self: Any, *arguments: Any) -> Any:
        steps.append(arguments[-1][1])
        if len(steps) == count:
            raise KeyboardInterrupt
        return sample(self, *arguments)

    monkeypatch.setattr(sampler, "sample", killed)
    return steps
