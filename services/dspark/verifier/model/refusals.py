"""Models that cannot be served are refused with the reason before their weights are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dspark.verifier.interfaces import ModelRefused

# Their frequencies change with the length of the longest sequence of a pass.
_LENGTH_DEPENDENT_ROPES = {"dynamic", "longrope"}


@contextmanager
def refusing(problem: str) -> Iterator[None]:
    """Errors of a model's own code mean that it is of an unknown kind."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ModelRefused(f"{problem}: {str(error).strip().partition(chr(10))[0]}") from error


def check_supported(model: Any) -> None:
    """Raises ModelRefused for a model whose rows cannot be computed on their own."""
    config = model.config.get_text_config()
    kind = type(model).__name__
    if getattr(config, "is_encoder_decoder", False):
        raise ModelRefused(f"{kind} is an encoder-decoder; only decoder-only models are served")
    if getattr(config, "add_cross_attention", False):
        raise ModelRefused(f"{kind} uses cross-attention")
    if not getattr(model, "_supports_attention_backend", False):
        raise ModelRefused(f"{kind} does not support the attention interface of transformers")
    if (
        getattr(config, "alibi", False)
        or getattr(config, "position_embedding_type", None) == "alibi"
    ):
        raise ModelRefused(f"{kind} uses ALiBi position biases")
    if getattr(config, "use_bidirectional_attention", False):
        raise ModelRefused(f"{kind} uses bidirectional attention")
    if getattr(config, "attention_chunk_size", None):
        raise ModelRefused(f"{kind} uses chunked attention")
    if unfit := _rope_types(config) & _LENGTH_DEPENDENT_ROPES:
        raise ModelRefused(
            f"{kind} uses {', '.join(sorted(unfit))} rotary embeddings, which change with the "
            "length of the longest sequence, so outputs would depend on neighbours"
        )
    if not getattr(config, "max_position_embeddings", 0):
        raise ModelRefused(f"{kind} names no max_position_embeddings")
    _check_layer_types(config, kind)


def _rope_types(config: Any) -> set[str]:
    parameters = getattr(config, "rope_parameters", None) or {}
    if "rope_type" in parameters:
        return {parameters["rope_type"]}
    return {p["rope_type"] for p in parameters.values() if isinstance(p, dict) and "rope_type" in p}


def _check_layer_types(config: Any, kind: str) -> None:
    known = {"full_attention", "sliding_attention"}
    if unknown := set(getattr(config, "layer_types", None) or ()) - known:
        raise ModelRefused(f"{kind} has layers of type {', '.join(sorted(unknown))}")


def check_length(asked: int, max_model_len: int) -> None:
    """Raises ModelRefused for a length of sequences that the model has no positions for."""
    if asked > max_model_len:
        raise ModelRefused(f"--max-model-len {asked} is above the model's {max_model_len} tokens")
