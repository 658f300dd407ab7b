"""What a prepared model's config.json says."""

from __future__ import annotations

import json
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.prepare import PreparedModel

_USAGE = 2


def config_number(directory: Path, name: str) -> int | None:
    """The integer of this name, for the text part of the model; None if there is none."""
    config = json.loads((directory / "config.json").read_text())
    number = config.get(name) or config.get("text_config", {}).get(name)
    return number if isinstance(number, int) else None


def check_max_model_len(asked: int | None, model: PreparedModel) -> None:
    """Raises CliError for a length that the model has no positions for, where its config tells."""
    limit = config_number(model.directory, "max_position_embeddings")
    if asked and limit and asked > limit:
        problem = f"{model.name} takes sequences of at most {limit} tokens"
        raise CliError(f"--max-model-len {asked}: {problem}", _USAGE)
