"""What each layer of a model asks of attention, learned from a forward pass of one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from dspark.verifier.attention.backend import AttentionLayer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import ModelRefused
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.attention_interface import NAME, AttentionContext, register


@dataclass(frozen=True, slots=True)
class AttentionSurvey:
    """The layers in order, and the shape of their K/V, which is the same for all."""

    layers: tuple[AttentionLayer, ...]
    num_kv_heads: int
    head_dim: int


def survey_attention(model: Any) -> AttentionSurvey:
    """Asks the model's own code: configs and attributes name these things in many ways.

    Raises ModelRefused for attention that the KV pool or the backends do not know.
    """
    register()
    model.set_attn_implementation(NAME)
    recorder = _Recorder()
    context = AttentionContext(recorder, None, _NO_CACHE)
    with torch.inference_mode():
        embeddings = model.get_input_embeddings()(torch.zeros(1, 1, dtype=torch.long))
        position_ids = torch.zeros(1, 1, dtype=torch.long)
        model(inputs_embeds=embeddings, position_ids=position_ids, use_cache=False, ctx=context)
    kind = type(model).__name__
    indexes = [layer.index for layer in recorder.layers]
    if not indexes or indexes != list(range(len(indexes))):
        raise ModelRefused(f"{kind} does not run attention once in each layer, in order")
    if len(recorder.shapes) > 1:
        raise ModelRefused(f"{kind} has K/V of several shapes: {sorted(recorder.shapes)}")
    (num_kv_heads, head_dim), *_ = recorder.shapes
    return AttentionSurvey(tuple(recorder.layers), num_kv_heads, head_dim)


# The recorder never touches it.
_NO_CACHE: Any = None


@dataclass
class _Recorder:
    """An attention backend that writes down what it is asked for."""

    layers: list[AttentionLayer] = field(default_factory=list)
    shapes: set[tuple[int, int]] = field(default_factory=set)

    def plan(self, batch: ForwardBatch) -> None:
        return None

    def attend(
        self,
        plan: Any,
        layer: AttentionLayer,
        kv_cache: KvCache,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        self.layers.append(layer)
        self.shapes |= {(int(t.shape[1]), int(t.shape[2])) for t in (key, value)}
        return query
