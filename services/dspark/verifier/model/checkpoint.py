"""Loads a model through its transformers class: from a directory, a GGUF file or the hub."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from dspark.verifier.interfaces import ModelRefused, Progress

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded causal LM on the CPU in ``dtype``, and the files that it came from.

    ``max_model_len`` is 0 where the config names no limit of positions.
    """

    model: Any
    dtype: torch.dtype
    files: tuple[Path, ...]
    eos_token_ids: frozenset[int]
    max_model_len: int


def load_checkpoint(name: str, dtype: torch.dtype | None, progress: Progress) -> Checkpoint:
    """``name`` is a directory, a .gguf file or a hub id.

    ``dtype`` None means float32 for models stored in float32, else bfloat16. Raises ModelRefused.
    """
    from transformers.utils.logging import disable_progress_bar

    progress("loading weights")
    disable_progress_bar()  # type: ignore[no-untyped-call]
    path = Path(name).expanduser()
    try:
        if path.is_file() and path.suffix == ".gguf":
            return _load_gguf(path, dtype)
        return _load_directory(path if path.is_dir() else _download(name), dtype)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()
        raise ModelRefused(reason[0] if reason else type(error).__name__) from error


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ModelRefused(
            f"it is no directory or .gguf file, and the hub says: {reason}"
        ) from error


def _load_directory(path: Path, dtype: torch.dtype | None) -> Checkpoint:
    from transformers import AutoConfig, AutoModelForCausalLM

    files = tuple(sorted(path.glob("*.safetensors")))
    if not files:
        raise ModelRefused(f"{path} holds no .safetensors file")
    config = AutoConfig.from_pretrained(path)
    stored = getattr(config.get_text_config(), "dtype", None) or torch.float32
    # float16's range is too small for activations of many models; bfloat16 holds its weights well.
    chosen = dtype or (torch.float32 if stored == torch.float32 else torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=chosen)
    return _checkpoint(model, chosen, (path / "config.json", *files), path)


def _load_gguf(path: Path, dtype: torch.dtype | None) -> Checkpoint:
    from transformers import AutoModelForCausalLM, GgufConfig

    chosen = dtype or torch.bfloat16
    model = AutoModelForCausalLM.from_pretrained(
        str(path.parent),
        gguf_file=path.name,
        dtype=chosen,
        quantization_config=GgufConfig(dequantize=True),
    )
    return _checkpoint(model, chosen, (path,), None)


def _checkpoint(
    model: Any, dtype: torch.dtype, files: tuple[Path, ...], directory: Path | None
) -> Checkpoint:
    text_config = model.config.get_text_config()
    return Checkpoint(
        model=model.eval().requires_grad_(False),
        dtype=dtype,
        files=files,
        eos_token_ids=_eos_token_ids(directory, text_config),
        max_model_len=int(getattr(text_config, "max_position_embeddings", 0)),
    )


def _eos_token_ids(directory: Path | None, config: Any) -> frozenset[int]:
    """From generation_config.json, else the model's config."""
    eos: int | list[int] | None = None
    generation_config = directory / "generation_config.json" if directory else None
    if generation_config and generation_config.exists():
        eos = json.loads(generation_config.read_text()).get("eos_token_id")
    if eos is None:
        eos = getattr(config, "eos_token_id", None)
    if eos is None:
        log.warning("the model names no end-of-sequence token: sequences end by length or stop ids")
        return frozenset()
    return frozenset([eos] if isinstance(eos, int) else eos)
