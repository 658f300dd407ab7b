"""What a prepared model's config.json says."""

from __future__ import annotations

import json
from pathlib import Path

from dspark.cli.failure import CliError
from dspark.cli.models.prepare import PreparedModel

_USAGE = 2


def config_number(directory: Path, name: str) -> int | None:
    """The integer of this name, for the text part of the model; None if there is none.

    Raises CliError for a config.json that is none.
    """
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        number = config.get(name) or config.get("text_config", {}).get(name)
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}", _USAGE) from error
    except (AttributeError, ValueError, RecursionError) as error:
        raise CliError(f"{path} is not a model's configuration: {error}", _USAGE) from error
    return number if isinstance(number, int) else None


def check_max_model_len(asked: int | None, model: PreparedModel) -> None:
    """Raises CliError for a length that the model has no positions for, where its config tells."""
    limit = config_number(model.directory, "max_position_embeddings")
    if asked and limit and asked > limit:
        problem = f"{model.name} takes sequences of at most {limit} tokens"
        raise CliError(f"--max-model-len {asked}: {problem}", _USAGE)


def check_pruning_layer(layer: int | None, model: PreparedModel) -> None:
    """Raises CliError for a layer that the model does not have, where its config tells."""
    layers = config_number(model.directory, "num_hidden_layers")
    if layer and layers and layer >= layers:
        problem = f"must be below the {layers} layers of {model.name}"
        raise CliError(f"--early-pruning {layer} {problem}", _USAGE)
