"""The folder through which the processes of an evaluation pass their data on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dspark.verifier.evaluation.agreement import Agreement
from dspark.verifier.evaluation.log_probabilities import Logits
from dspark.verifier.evaluation.plan import EvaluationPlan, PromptWork
from dspark.verifier.evaluation.results import EvaluationResult, ModelRun, TextScore


class Workspace:
    """The plan, each role's result, and the reference's logits, which take the most room."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write_plan(self, plan: EvaluationPlan) -> None:
        self._write("plan", plan)

    def read_plan(self) -> EvaluationPlan:
        plan = self._read("plan")
        return EvaluationPlan(
            **plan | {"prompts": [PromptWork(**each) for each in plan["prompts"]]}
        )

    def write_result(self, role: str, result: EvaluationResult) -> None:
        self._write(role, result)

    def read_result(self, role: str) -> EvaluationResult:
        result = self._read(role)
        return EvaluationResult(
            run=ModelRun(**result["run"]),
            texts=[TextScore(**each) for each in result["texts"]],
            continuations=result["continuations"],
            agreements=[Agreement(**each) for each in result["agreements"]],
        )

    def write_logits(self, prompt: int, rows: Iterable[Logits]) -> None:
        """Keep the logits [vocab_size] of each position of a prompt's continuation."""
        # A mapped file would end the process, not raise, when the disk is full.
        with open(self._logits_path(prompt), "wb") as file:
            for row in rows:
                file.write(row.astype(np.float32, copy=False).tobytes())

    def read_logits(self, prompt: int, vocab_size: int) -> Logits:
        """[num_positions, vocab_size], mapped: only rows that are used take memory."""
        flat = np.memmap(self._logits_path(prompt), dtype=np.float32, mode="r")
        return flat.reshape(-1, vocab_size)

    def _logits_path(self, prompt: int) -> Path:
        return self._folder / f"logits-{prompt}.f32"

    def _write(self, name: str, value: Any) -> None:
        (self._folder / f"{name}.json").write_text(json.dumps(dataclasses.asdict(value)))

    def _read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self._folder / f"{name}.json").read_text())
        return content
