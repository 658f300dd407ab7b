"""What a directory with a draft model must be: a causal model that fits the target.

It is one as ``transformers`` saves it. If it was trained here, its config.json says in
``dspark_target_digest`` which target it fits, and in ``dspark_error_scale`` how far its logits are
from the target's (see ``perturbed_top``). Any other must have the target's tokenizer. A list of
ascending ids in ``draft_vocabulary.json`` limits what the model guesses and its head computes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dspark.candidates.draft_model.vocabulary_fit import common_ids
from dspark.candidates.learned_weights import LearnedWeights

DIGEST = "dspark_target_digest"
ERROR_SCALE = "dspark_error_scale"
VOCABULARY = "draft_vocabulary.json"
DEFAULT_ERROR_SCALE = 1.0


@dataclass(frozen=True, slots=True)
class DraftDirectory:
    """A directory that fits. Only ids below ``num_ids`` may be proposed, if given ``token_ids``."""

    path: Path
    num_ids: int
    error_scale: float
    token_ids: tuple[int, ...] | None = None


def read_draft_directory(weights: LearnedWeights, model_dir: Path) -> DraftDirectory:
    """Raises ValueError, with what is wrong, for a directory that is damaged or does not fit."""
    config, target = _config(weights.path), _config(model_dir)
    digest = config.get(DIGEST)
    if digest is not None:
        weights.check(str(digest))
    common = common_ids(weights.path, model_dir)
    if common is None and digest is None:
        raise ValueError(
            f"{weights.path} has no tokenizer.json, and no {DIGEST} in its config.json: nothing "
            "says that its token ids are the target's"
        )
    sizes = [_vocab_size(weights.path, config), _vocab_size(model_dir, target)]
    if common is None and sizes[0] != sizes[1]:
        raise ValueError(f"{weights.path} has {sizes[0]} token ids, and the target {sizes[1]}")
    num_ids = min([*sizes, common or sizes[0]])
    token_ids = _token_ids(weights.path / VOCABULARY, num_ids)
    return DraftDirectory(weights.path, num_ids, _error_scale(config), token_ids)


def _config(directory: Path) -> dict[str, Any]:
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it is no object")
    except FileNotFoundError as error:
        raise ValueError(f"{directory} has no config.json") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return config


def _vocab_size(directory: Path, config: dict[str, Any]) -> int:
    """Of the embedding; models for text and more have it in a part of their config."""
    text = config.get("text_config", config)
    size = text.get("vocab_size") if isinstance(text, dict) else None
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"{directory}/config.json has no vocab_size")
    return size


def _error_scale(config: dict[str, Any]) -> float:
    scale = config.get(ERROR_SCALE, DEFAULT_ERROR_SCALE)
    if not isinstance(scale, int | float) or not 0.01 <= scale <= 100 or math.isnan(scale):
        raise ValueError(f"{ERROR_SCALE}: {scale!r} is not a number from 0.01 to 100")
    return float(scale)


def _token_ids(path: Path, num_ids: int) -> tuple[int, ...] | None:
    if not path.is_file():
        return None
    try:
        token_ids = [int(token_id) for token_id in json.loads(path.read_text(encoding="utf-8"))]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    bounded = [-1, *token_ids, num_ids]
    if not token_ids or any(low >= high for low, high in pairwise(bounded)):
        raise ValueError(f"{path} is damaged: its ids are not ascending ones below {num_ids}")
    return tuple(token_ids)
