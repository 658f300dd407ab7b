"""Whether passes are pruned, by setting, model and measured costs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dspark.verifier.config import VerifierConfig
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import LoadedModel, ModelRefused
from dspark.verifier.model.cut_costs import BUDGET_S, ROW_COUNTS, measure_cut_costs
from dspark.verifier.model.loader import load_model
from dspark.verifier.pruning.cut import Cut
from dspark.verifier.pruning.pruner import NoPruning
from dspark.verifier.pruning.restricted_logits import RestrictedLogits
from harness.tiny_models import save_tiny_model

NUM_LAYERS = 10


class Clock:
    """Passes take time on it: for each row a layer's time and a head's."""

    def __init__(self, layer_s: float, head_s: float = 0.0, cut_s: float = 0.0) -> None:
        self.now = 0.0
        self.layer_s, self.head_s, self.cut_s = layer_s, head_s, cut_s
        self.num_layers = NUM_LAYERS
        self.rows: list[int] = []

    def __call__(self) -> float:
        return self.now

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        self.rows.append(batch.num_rows)
        self.now += batch.num_rows * (NUM_LAYERS * self.layer_s + self.head_s)
        return np.empty((0, 0), dtype=np.float32)

    def forward_cut(self, batch: ForwardBatch, cut: Cut) -> NDArray[np.float32]:
        self.now += batch.num_rows * cut.layer * self.layer_s + self.cut_s
        kept = cut.choose(np.zeros((len(cut.probe_rows), len(cut.token_ids)), dtype=np.float32))
        assert kept.tolist() == list(range(batch.num_rows)), "costs are those of whole passes"
        rest = (NUM_LAYERS - cut.layer) * self.layer_s + self.head_s
        self.now += len(kept) * rest
        return np.empty((0, 0), dtype=np.float32)


def measured(clock: Clock, max_rows: int, num_slots: int = 10_000) -> list[tuple[float, ...]]:
    costs = measure_cut_costs(clock.forward, clock, num_slots, 16, max_rows, clock)
    return [tuple(round(value, 6) for value in cost) for cost in costs]


def test_layers_and_cuts_are_told_apart() -> None:
    clock = Clock(layer_s=1e-6, head_s=5e-6, cut_s=2e-4)
    assert measured(clock, 32) == [
        (8, 0.12, 0.008, 0.2),
        (16, 0.24, 0.016, 0.2),
        (32, 0.48, 0.032, 0.2),
    ]


@pytest.mark.parametrize(("max_rows", "num_slots"), [(7, 1000), (100, 70)])
def test_passes_that_are_too_large_are_left_out(max_rows: int, num_slots: int) -> None:
    clock = Clock(layer_s=1e-6)
    assert measured(clock, max_rows, num_slots) == [] and clock.rows == []


def test_the_time_is_bounded() -> None:
    clock = Clock(layer_s=1e-4)
    assert 0 < len(measured(clock, max(ROW_COUNTS))) < len(ROW_COUNTS)
    assert clock.now < 1.5 * BUDGET_S


def load(directory: Path, architecture: str = "llama", **settings: str) -> LoadedModel:
    config = VerifierConfig(
        model=str(save_tiny_model(architecture, directory)),
        kv_tokens=512,
        max_step_rows=16,
        **settings,
    )
    return load_model(config, lambda line: None)


def test_off_is_off(tmp_path: Path) -> None:
    assert isinstance(load(tmp_path, early_pruning="off").pruner, NoPruning)


def test_a_layer_is_taken_as_it_is(tmp_path: Path) -> None:
    assert isinstance(load(tmp_path, early_pruning="1").pruner, RestrictedLogits)


def test_auto_loads(tmp_path: Path) -> None:
    assert isinstance(load(tmp_path).pruner, NoPruning | RestrictedLogits)


def test_a_layer_that_the_model_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="--early-pruning 2 must be below the model's 2 layers"):
        load(tmp_path, early_pruning="2")


@pytest.mark.parametrize("setting", ["1", "auto"])
@pytest.mark.parametrize(
    "more", [{"kernels": "torch"}, {"exactness": "fast"}], ids=["torch", "fast"]
)
def test_models_that_cannot_be_cut_or_mix_rows_are_served_without(
    tmp_path: Path,
    setting: str,
    more: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert isinstance(load(tmp_path, early_pruning=setting, **more).pruner, NoPruning)
    lines = [record for record in caplog.records if "passes are not pruned" in record.getMessage()]
    warned = [record for record in lines if record.levelno >= logging.WARNING]
    assert bool(warned) is (setting == "1"), "who asks for it is told"


def test_what_the_trial_finds_turns_pruning_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Callable[..., str] = lambda *_: "rows differ"  # noqa: E731
    monkeypatch.setattr("dspark.verifier.model.early_pruning.cut_problem", found)
    assert isinstance(load(tmp_path, early_pruning="1").pruner, NoPruning)
