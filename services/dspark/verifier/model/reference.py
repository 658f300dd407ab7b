"""The model's own logits, by the stock forward pass with eager attention in float32.

They show, before anything is served, that what runs instead computes the same function.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.interfaces import ModelRefused
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.attention_survey import AttentionSurvey
from dspark.verifier.model.probe_rows import plain_rows, probe_batch
from dspark.verifier.model.weight_format import WeightFormat

NUM_TOKENS = 12
# Not all rows, so that a model that returns more than it was asked for is noticed.
_WANTED_ROWS = range(1, NUM_TOKENS, 2)
_TOLERANCE = 1e-3
_HEAD_CHUNK = 8192


class FirstLayers:
    """A float32 copy of a model's first layers, at least one of each type; shares its embedding.

    Its linear layers compute with the values that ``form`` holds of their weights.
    """

    def __init__(
        self,
        model: Any,
        survey: AttentionSurvey,
        form: WeightFormat,
    ) -> None:
        config = model.config.get_text_config()
        self.num_layers = _layers_to_check(_layer_owner(model).layers, survey)
        self.num_kv_heads = survey.num_kv_heads
        self.head_dim = survey.head_dim
        self._embed = model.get_input_embeddings()
        self.model = _truncated_copy(model, self.num_layers, form)
        vocab_size = int(config.vocab_size)
        self._tokens = [(i * 7919 + 13) % vocab_size for i in range(NUM_TOKENS)]

    def logits(self) -> NDArray[np.float32]:
        """Logits of the probe's wanted rows by the stock forward pass."""
        self.model.set_attn_implementation("eager")
        with torch.inference_mode():
            embeddings = self._embed(torch.tensor([self._tokens])).float()
            output = self.model(inputs_embeds=embeddings, use_cache=False)
        logits: NDArray[np.float32] = output.logits[0, list(_WANTED_ROWS)].numpy()
        return logits

    def probe(self) -> tuple[ForwardBatch, KvCache]:
        """The same tokens as a pass, and a float32 pool for it."""
        rows = plain_rows(self._tokens, range(NUM_TOKENS))
        cache = KvCache(
            num_layers=self.num_layers,
            num_blocks=NUM_TOKENS,
            block_size=1,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            dtype=torch.float32,
        )
        return probe_batch(rows, _WANTED_ROWS, block_size=1), cache


def largest_difference(logits: NDArray[np.float32], reference: NDArray[np.float32]) -> float | None:
    """The largest difference relative to the largest logit; None if it is within rounding."""
    if logits.shape != reference.shape:
        return math.inf
    scale = float(np.abs(reference).max())
    difference = float(np.abs(logits - reference).max()) / max(scale, 1e-6)
    return None if difference <= _TOLERANCE else difference


def _layers_to_check(layers: nn.ModuleList, survey: AttentionSurvey) -> int:
    """As many as hold every kind of layer, and two if there are."""
    kinds = [
        (_settings(layer), replace(attention, index=0))
        for layer, attention in zip(layers, survey.layers, strict=True)
    ]
    last_new = max(kinds.index(kind) for kind in kinds)
    return min(len(kinds), max(2, last_new + 1))


def _settings(layer: nn.Module) -> tuple[tuple[str, str, object], ...]:
    """All plain attributes of a layer's modules, which are what sets its kind apart."""
    return tuple(
        (name, key, value)
        for name, module in layer.named_modules()
        for key, value in sorted(vars(module).items())
        if isinstance(value, bool | int | float | str) and key not in ("layer_idx", "training")
    )


def _layer_owner(model: Any) -> Any:
    for module in model.modules():
        if isinstance(getattr(module, "layers", None), nn.ModuleList):
            return module
    raise ModelRefused(f"{type(model).__name__} keeps its layers in no list")


def _truncated_copy(model: Any, num_layers: int, form: WeightFormat) -> Any:
    embed, head = model.get_input_embeddings(), model.get_output_embeddings()
    owner = _layer_owner(model)
    layers = owner.layers
    owner.layers = layers[:num_layers]
    try:
        copied = copy.deepcopy(model, {id(embed): embed, id(head): head})
    finally:
        owner.layers = layers
    copied.config.get_text_config().num_hidden_layers = num_layers
    copied.set_output_embeddings(_FloatHead(head, form.of_head.values))
    for module in copied.modules():
        if module is not embed:
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.float()
        if type(module) is nn.Linear:
            module.weight.data = form.values(module.weight.data)
    return copied


class _FloatHead(nn.Module):
    """A linear head in float32, piece by piece so that a large one is never copied whole."""

    def __init__(self, head: nn.Linear, values: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._weight = (head.weight,)
        self._values = values
        self._bias = head.bias.detach().float() if head.bias is not None else None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        pieces = torch.split(self._weight[0], _HEAD_CHUNK)
        logits = torch.cat(
            [functional.linear(rows, self._values(piece).float()) for piece in pieces], dim=-1
        )
        return logits if self._bias is None else logits + self._bias
