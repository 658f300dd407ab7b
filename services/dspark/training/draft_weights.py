"""Writes a trained draft model as the source ``draft`` reads it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from torch import Tensor

from dspark.candidates.draft_model.draft_directory import DIGEST, ERROR_SCALE, VOCABULARY
from dspark.training.draft_student import DraftStudent

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def write_draft(
    directory: Path,
    student: DraftStudent,
    model_dir: Path,
    target_digest: str,
    error_scale: float,
) -> None:
    """A ``transformers`` directory in bfloat16 with the target's tokenizer.

    It takes the place of an earlier one only when it is complete.
    """
    partial = directory.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    student.model.save_pretrained(partial, state_dict=_halves(student.model.state_dict()))
    for name in _TOKENIZER:
        if (model_dir / name).is_file():
            shutil.copyfile(model_dir / name, partial / name)
    (partial / VOCABULARY).write_text(json.dumps(student.token_ids.tolist()) + "\n")
    path = partial / "config.json"
    config = json.loads(path.read_text()) | {
        "dtype": "bfloat16",
        DIGEST: target_digest,
        ERROR_SCALE: error_scale,
    }
    path.write_text(json.dumps(config, indent=2) + "\n")
    # The library makes files that others cannot read; a service may run as another user.
    for file in partial.iterdir():
        file.chmod(0o644)
    shutil.rmtree(directory, ignore_errors=True)
    partial.rename(directory)


def _halves(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """In bfloat16; a matrix that has two names stays one, so it is written once."""
    halves: dict[int, Tensor] = {}
    return {
        name: halves.setdefault(tensor.data_ptr(), tensor.to(torch.bfloat16))
        for name, tensor in state.items()
    }
