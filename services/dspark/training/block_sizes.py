"""What a network for the source ``block`` takes from its target: layers to see, and sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dspark.candidates.sources.block.network import BlockSizes
from dspark.training.feature_layers import evenly_spaced


def layers_of(model_dir: Path) -> tuple[int, ...]:
    """The layers whose hidden states it sees. Raises as ``sizes_for``."""
    path = model_dir / "config.json"
    try:
        return evenly_spaced(int(_text_config(path)["num_hidden_layers"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} does not tell how many layers the model has: {error}") from error


def sizes_for(model_dir: Path) -> BlockSizes:
    """Its layers are as large as the target's.

    Raises ValueError where the target's config.json does not tell, OSError.
    """
    path = model_dir / "config.json"
    config = _text_config(path)
    try:
        hidden_size, num_heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        return BlockSizes(
            hidden_size=hidden_size,
            num_features=len(layers_of(model_dir)),
            num_heads=num_heads,
            num_kv_heads=int(config.get("num_key_value_heads") or num_heads),
            head_size=int(config.get("head_dim") or hidden_size // num_heads),
            inner_size=int(config["intermediate_size"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} does not tell the sizes of the model's layers: {error}"
        ) from error


def _text_config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(path.read_text())
    # A model of text and images has its numbers of text one level down.
    return dict(config.get("text_config", config))
