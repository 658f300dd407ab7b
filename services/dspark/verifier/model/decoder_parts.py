"""Recognises decoders of the Llama shape by structure: which weights play which part."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.model.attention_survey import AttentionSurvey

_LAYER_CHILDREN = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
_GEMMA_CHILDREN = {"pre_feedforward_layernorm", "post_feedforward_layernorm"}
_ATTENTION_CHILDREN = {"q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"}
_MLP_CHILDREN = {"gate_proj", "up_proj", "down_proj", "act_fn"}
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": nn.functional.silu,
    "gelu_tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
}


class UnfitStructure(Exception):
    """The model is not of this shape; the message names the part."""


@dataclass(frozen=True, slots=True)
class NormParts:
    """An RMS norm: x / rms(x) * weight, weight in float32."""

    weight: torch.Tensor
    eps: float


@dataclass(frozen=True, slots=True)
class LayerParts:
    """One decoder layer; the ``*_out`` norms act on a branch before its residual sum."""

    q: nn.Linear
    k: nn.Linear
    v: nn.Linear
    output: nn.Linear
    gate: nn.Linear
    up: nn.Linear
    down: nn.Linear
    input_norm: NormParts
    mlp_norm: NormParts
    attention_out_norm: NormParts | None
    mlp_out_norm: NormParts | None
    q_norm: NormParts | None
    k_norm: NormParts | None
    attention: AttentionLayer
    layer_type: str | None


@dataclass(frozen=True, slots=True)
class DecoderParts:
    """A whole decoder; ``layer_types`` are the kinds of layer with rotary tables of their own."""

    embed: nn.Module
    rotary: nn.Module
    layers: list[LayerParts]
    final_norm: NormParts
    head: nn.Linear
    activation: str
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    logit_cap: float
    layer_types: list[str | None] = field(default_factory=lambda: [None])


def decoder_parts(model: Any, survey: AttentionSurvey) -> DecoderParts:
    """The parts of a ``transformers`` causal LM. Raises UnfitStructure.

    What the structure cannot show (a scale, an extra residual) is left to the check against the
    model's own forward pass.
    """
    base = model.base_model
    for name in ("embed_tokens", "layers", "norm", "rotary_emb"):
        _require(hasattr(base, name), f"no {name}")
    _require(len(base.layers) == len(survey.layers), "layers without attention")
    layers = [
        _layer_parts(layer, attention)
        for layer, attention in zip(base.layers, survey.layers, strict=True)
    ]
    head = model.get_output_embeddings()
    _require(type(head) is nn.Linear, "the head is not linear")
    by_type = _rotary_by_layer_type(base.rotary_emb)
    types: list[str | None] = [None]
    if by_type:
        types = list(dict.fromkeys(layer.layer_type for layer in layers))
    head_dim = survey.head_dim
    return DecoderParts(
        embed=base.embed_tokens,
        rotary=base.rotary_emb,
        layers=layers,
        final_norm=_norm(base.norm),
        head=head,
        activation=_activation(base.layers[0].mlp.act_fn),
        num_heads=layers[0].q.out_features // head_dim,
        num_kv_heads=survey.num_kv_heads,
        head_dim=head_dim,
        hidden_size=layers[0].q.in_features,
        intermediate_size=layers[0].gate.out_features,
        logit_cap=float(getattr(model.config, "final_logit_softcapping", None) or 0.0),
        layer_types=types,
    )


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise UnfitStructure(problem)


def _rotary_by_layer_type(rotary: nn.Module) -> bool:
    return "layer_type" in inspect.signature(rotary.forward).parameters


def _layer_parts(layer: nn.Module, attends: AttentionLayer) -> LayerParts:
    children = _children(layer, "layer")
    is_gemma = bool(children & _GEMMA_CHILDREN)
    wanted = _LAYER_CHILDREN | _GEMMA_CHILDREN if is_gemma else _LAYER_CHILDREN
    _require(children == wanted, f"layer children {sorted(children ^ wanted)}")
    attention: Any = layer.self_attn
    mlp: Any = layer.mlp
    _require(_children(attention, "attention") <= _ATTENTION_CHILDREN, "attention children")
    _require(_children(mlp, "mlp") <= _MLP_CHILDREN, "mlp children")
    after_attention: Any = layer.post_attention_layernorm
    gemma_norms: Any = layer
    return LayerParts(
        q=_linear(attention, "q_proj"),
        k=_linear(attention, "k_proj"),
        v=_linear(attention, "v_proj"),
        output=_linear(attention, "o_proj"),
        gate=_linear(mlp, "gate_proj"),
        up=_linear(mlp, "up_proj"),
        down=_linear(mlp, "down_proj"),
        input_norm=_norm(layer.input_layernorm),
        mlp_norm=_norm(gemma_norms.pre_feedforward_layernorm if is_gemma else after_attention),
        attention_out_norm=_norm(after_attention) if is_gemma else None,
        mlp_out_norm=_norm(gemma_norms.post_feedforward_layernorm) if is_gemma else None,
        q_norm=_norm(attention.q_norm) if hasattr(attention, "q_norm") else None,
        k_norm=_norm(attention.k_norm) if hasattr(attention, "k_norm") else None,
        attention=attends,
        layer_type=getattr(attention, "layer_type", None),
    )


def _children(module: nn.Module, name: str) -> set[str]:
    _require(not list(module.parameters(recurse=False)), f"{name} has parameters of its own")
    return {child for child, _ in module.named_children()}


def _linear(module: nn.Module, name: str) -> nn.Linear:
    linear = getattr(module, name, None)
    _require(type(linear) is nn.Linear, f"{name} is not linear")
    assert isinstance(linear, nn.Linear)
    return linear


def _norm(module: Any) -> NormParts:
    """Tells x * weight from x * (1 + weight) by trying the module on a vector."""
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    weight = getattr(module, "weight", None)
    _require(eps is not None and isinstance(weight, torch.Tensor), f"norm {type(module).__name__}")
    assert isinstance(weight, torch.Tensor) and eps is not None
    weight = weight.detach().float()
    _require(weight.dim() == 1, "norm weight is not a vector")
    probe = torch.linspace(-1.0, 2.0, weight.numel()) + 0.25
    with torch.inference_mode():
        result = copy.deepcopy(module).float()(probe[None])[0]
    scaled = probe * torch.rsqrt(probe.pow(2).mean() + eps)
    for candidate in (weight, 1.0 + weight):
        if torch.allclose(scaled * candidate, result, rtol=1e-4, atol=1e-5):
            return NormParts(candidate.clone(), float(eps))
    raise UnfitStructure(f"norm {type(module).__name__} is not an RMS norm")


def _activation(module: Callable[[torch.Tensor], torch.Tensor]) -> str:
    probe = torch.linspace(-6.0, 6.0, 49)
    for name, function in _ACTIVATIONS.items():
        if torch.allclose(module(probe), function(probe), atol=1e-6):
            return name
    raise UnfitStructure(f"activation {type(module).__name__}")
