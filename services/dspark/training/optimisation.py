"""The training loop of small networks: a warm-up, a cosine, checkpoints to go on from."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dspark.training.progress_file import ProgressFile

BETAS = (0.9, 0.95)
CLIP = 1.0
REPORT_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """``steps`` in all; the rate rises over ``warm_up`` steps and falls to 0 like a cosine."""

    steps: int
    warm_up: int = 40

    def rate(self, step: int) -> float:
        """The share of the full rate at a step, from 0."""
        if step < self.warm_up:
            return (step + 1) / (self.warm_up + 1)
        done = (step - self.warm_up) / max(1, self.steps - self.warm_up)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


@dataclass(slots=True)
class Optimisation:
    """Takes ``model`` through a schedule; ``loss_at`` gives the loss of a step's batch.

    A batch depends on nothing but the step, so a run that goes on from a checkpoint ends with the
    weights of one that was never stopped. ``identity`` says which run a checkpoint is of.
    ``validate`` is called every ``validate_every`` steps and gives figures for the progress file.
    """

    model: nn.Module
    groups: list[dict[str, object]]
    schedule: Schedule
    loss_at: Callable[[int], Tensor]
    validate: Callable[[], dict[str, Any]]
    checkpoint: Path
    progress: ProgressFile
    identity: dict[str, Any]
    say: Callable[[str], None]
    checkpoint_interval_s: float = 60.0
    validate_every: int = 100
    _optimiser: torch.optim.Optimizer = field(init=False)
    _rates: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self._optimiser = torch.optim.AdamW(self.groups, betas=BETAS)
        self._rates = [group["lr"] for group in self._optimiser.param_groups]

    def run(self) -> None:
        """All steps that are left; the checkpoint is gone afterwards."""
        first = self._restore()
        self.progress.keep_below(first)
        started = saved = time.monotonic()
        reported = 0.0
        for step in range(first, self.schedule.steps):
            loss = self._step(step)
            now, done = time.monotonic(), step + 1
            self.progress.append({"step": done, "loss": round(loss, 4)})
            if done % self.validate_every == 0 or done == self.schedule.steps:
                self.progress.append({"step": done, **self.validate()})
            if now - saved > self.checkpoint_interval_s:
                self._save(done)
                saved = now
            if now - reported > REPORT_INTERVAL_S:
                reported = now
                self._report(done, loss, (now - started) / (done - first))
        self.checkpoint.unlink(missing_ok=True)

    def _report(self, done: int, loss: float, seconds_a_step: float) -> None:
        steps = self.schedule.steps
        minutes = seconds_a_step * (steps - done) / 60
        self.say(f"step {done} of {steps}, loss {loss:.3f}, {minutes:.0f} min to go")

    def _step(self, step: int) -> float:
        for group, rate in zip(self._optimiser.param_groups, self._rates, strict=True):
            group["lr"] = rate * self.schedule.rate(step)
        self._optimiser.zero_grad(set_to_none=True)
        loss = self.loss_at(step)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self._optimiser.step()
        return float(loss.detach())

    def _save(self, done: int) -> None:
        state = {
            "identity": self.identity,
            "step": done,
            "model": self.model.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, self.checkpoint)

    def _restore(self) -> int:
        """The step to go on at: 0 without a checkpoint of this very run."""
        if not self.checkpoint.exists():
            return 0
        state = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        if state["identity"] != self.identity:
            return 0
        self.model.load_state_dict(state["model"])
        self._optimiser.load_state_dict(state["optimiser"])
        return int(state["step"])
