"""Tiny random models of real architectures, saved like downloaded ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

VOCAB_SIZE = 97
GEMMA_WINDOW = 7


def _common(vocab_size: int) -> dict[str, Any]:
    return {
        "vocab_size": vocab_size,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 0,
        "initializer_range": 0.2,
    }


def _llama(vocab_size: int) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**_common(vocab_size), tie_word_embeddings=True)


def _qwen2(vocab_size: int) -> Any:
    from transformers import Qwen2Config

    settings = {k: v for k, v in _common(vocab_size).items() if k != "head_dim"}
    return Qwen2Config(**settings, tie_word_embeddings=False)


def _qwen3(vocab_size: int) -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(**_common(vocab_size), tie_word_embeddings=True)


def _gemma3(vocab_size: int) -> Any:
    """One K/V head, a window of GEMMA_WINDOW, rotary tables by layer type, its own scaling."""
    from transformers import Gemma3TextConfig

    settings = _common(vocab_size) | {"num_hidden_layers": 3, "num_key_value_heads": 1}
    return Gemma3TextConfig(
        **settings,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        sliding_window=GEMMA_WINDOW,
        query_pre_attn_scalar=24,
        final_logit_softcapping=20.0,
    )


_CONFIGS: dict[str, Callable[[int], Any]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma3": _gemma3,
}
ARCHITECTURES = tuple(_CONFIGS)


def tiny_model(architecture: str, vocab_size: int = VOCAB_SIZE, seed: int = 0) -> Any:
    """A random float32 model; every parameter differs from what would hide a mistake."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(_CONFIGS[architecture](vocab_size))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                offset = 0.0 if name.endswith("bias") else float(parameter.mean())
                parameter.copy_(offset + 0.3 * torch.randn_like(parameter))
    return model.eval()


def save_tiny_model(
    architecture: str, directory: Path, vocab_size: int = VOCAB_SIZE, seed: int = 0
) -> Path:
    """Write a tiny model (config, generation config, safetensors) to ``directory``."""
    tiny_model(architecture, vocab_size, seed).save_pretrained(directory)
    return directory
