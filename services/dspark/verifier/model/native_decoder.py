"""A decoder of the Llama shape, packed for the kernels and run by them in one call a pass."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dspark.features import FINAL_LAYER
from dspark.verifier.attention.native_backend import LANES
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.decoder_parts import (
    DecoderParts,
    LayerParts,
    NormParts,
    UnfitStructure,
)
from dspark.verifier.model.native_pass import NativePass
from dspark.verifier.model.restricted_head import RestrictedHead
from dspark.verifier.model.rotary_table import RotaryTable
from dspark.verifier.model.weight_format import WeightFormat
from dspark.verifier.native.library import Team
from dspark.verifier.native.packing import interleave_gate_up
from dspark.verifier.native.structs import (
    MAX_ROPES,
    AttentionParamsStruct,
    DecoderLayerStruct,
    DecoderStruct,
    HeadShapeStruct,
    NormStruct,
)
from dspark.verifier.pruning.compaction import LateFeatures, compacted
from dspark.verifier.pruning.cut import Cut

_ACTIVATION_CODES = {"silu": 0, "gelu_tanh": 1}


class NativeDecoder:
    """All layers and the head as packed weights; owns copies, so the model's own may be freed."""

    def __init__(self, parts: DecoderParts, form: WeightFormat, team: Team) -> None:
        """Raises UnfitStructure for shapes that the kernels do not take."""
        if parts.head_dim % LANES or len(parts.layer_types) > MAX_ROPES:
            raise UnfitStructure(
                f"head_dim {parts.head_dim} with {len(parts.layer_types)} rotaries"
            )
        self._team = team
        self._form = form
        self._memory: list[Any] = []
        self._embed = parts.embed
        self._rotary = RotaryTable(parts.rotary, parts.layer_types)
        self._layers = (DecoderLayerStruct * len(parts.layers))(
            *(self._layer(layer, parts) for layer in parts.layers)
        )
        self._struct = DecoderStruct(
            layers=ctypes.addressof(self._layers),
            num_layers=len(parts.layers),
            hidden_size=parts.hidden_size,
            intermediate_size=parts.intermediate_size,
            activation=_ACTIVATION_CODES[parts.activation],
            shape=HeadShapeStruct(parts.num_heads, parts.num_kv_heads, parts.head_dim, 0),
            final_norm=self._norm(parts.final_norm),
            head=self._packed(form.of_head, parts.head.weight, parts.head.bias),
            logit_cap=parts.logit_cap,
            rotary_dim=self._rotary.rotary_dim,
        )
        self.vocab_size = parts.head.out_features
        self.hidden_size = parts.hidden_size
        self.num_layers = len(parts.layers)
        self._restricted_head = RestrictedHead(self._struct.head, parts.logit_cap)
        # What the last layer leaves is only known after its branch is added: see FINAL_LAYER.
        self.feature_layers = tuple(range(len(parts.layers)))
        self._logits = np.empty((0, self.vocab_size), dtype=np.float32)
        self._run = team.library.dspark_decoder_new(team.handle)

    def __del__(self) -> None:
        run, self._run = getattr(self, "_run", 0), 0
        if run:
            self._team.library.dspark_decoder_delete(run)

    def forward(
        self, batch: ForwardBatch, kv_cache: KvCache, num_layers: int | None = None
    ) -> NDArray[np.float32]:
        """Logits [num_logits, vocab_size], in a buffer that the next call reuses.

        ``num_layers`` runs the first layers only, which checks use. Raises ValueError for a pool
        of another shape.
        """
        self._bind(kv_cache, len(self._layers) if num_layers is None else num_layers)
        call = NativePass(batch, self._embed, self._rotary)
        logits = call.give_logits(self._logits_buffer(len(batch.logits_rows)))
        self._do(call, 0, self._struct.num_layers)
        return logits

    def forward_cut(self, batch: ForwardBatch, kv_cache: KvCache, cut: Cut) -> NDArray[np.float32]:
        """Logits of the wanted rows that the cut keeps, as ``forward``'s."""
        self._bind(kv_cache, len(self._layers))
        call = NativePass(batch, self._embed, self._rotary)
        states = call.give_probes(cut.probe_rows, self.hidden_size)
        self._do(call, 0, cut.layer)
        kept = cut.choose(self._restricted_head.logits(states, cut.token_ids))
        wanted = batch.features
        layers = np.array(wanted.layers if wanted else (), dtype=np.int32)
        late = LateFeatures(wanted, kept, (layers == FINAL_LAYER) | (layers >= cut.layer))
        rest = replace(compacted(batch, kept), features=late.buffer)
        call = NativePass(rest, self._embed, self._rotary)
        call.carry(kept)
        logits = call.give_logits(self._logits_buffer(len(rest.logits_rows)))
        self._do(call, cut.layer, len(self._layers))
        late.deliver()
        return logits

    def _bind(self, kv_cache: KvCache, num_layers: int) -> None:
        struct = self._struct
        heads = (struct.shape.kv_heads, struct.shape.head_dim)
        if tuple(kv_cache.slots.shape[3:]) != heads:
            raise ValueError(f"K/V heads are {heads}, the pool's {tuple(kv_cache.slots.shape[3:])}")
        struct.num_layers = num_layers
        struct.shape.kv_is_bf16 = kv_cache.dtype == torch.bfloat16
        struct.kv_pool = kv_cache.tensor.data_ptr()
        struct.kv_plane_bytes = kv_cache.slots[0, 0].nbytes

    def _do(self, call: NativePass, first_layer: int, end_layer: int) -> None:
        call.struct.first_layer, call.struct.end_layer = first_layer, end_layer
        self._team.library.dspark_decoder_forward(
            self._run, self._team.handle, ctypes.byref(self._struct), ctypes.byref(call.struct)
        )

    def _logits_buffer(self, num_logits: int) -> NDArray[np.float32]:
        if len(self._logits) < num_logits:
            self._logits = np.empty((num_logits, self.vocab_size), dtype=np.float32)
        return self._logits[:num_logits]

    def _layer(self, layer: LayerParts, parts: DecoderParts) -> DecoderLayerStruct:
        layer_type = layer.layer_type if len(parts.layer_types) > 1 else parts.layer_types[0]
        attention = layer.attention
        return DecoderLayerStruct(
            qkv=self._pack_rows(layer.q, layer.k, layer.v),
            output=self._pack(layer.output.weight, layer.output.bias),
            gate_up=self._pack_gate_up(layer.gate, layer.up),
            down=self._pack(layer.down.weight, layer.down.bias),
            input_norm=self._norm(layer.input_norm),
            attention_out_norm=self._norm(layer.attention_out_norm),
            mlp_norm=self._norm(layer.mlp_norm),
            mlp_out_norm=self._norm(layer.mlp_out_norm),
            q_norm=self._norm(layer.q_norm),
            k_norm=self._norm(layer.k_norm),
            attention=AttentionParamsStruct(
                attention.scaling, attention.soft_cap, attention.sliding_window
            ),
            rope=parts.layer_types.index(layer_type),
        )

    def _norm(self, norm: NormParts | None) -> NormStruct:
        if norm is None:
            return NormStruct()
        weight = norm.weight.contiguous()
        self._memory.append(weight)
        return NormStruct(weight.data_ptr(), norm.eps)

    def _pack(self, weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
        return self._packed(self._form, weight, bias)

    def _packed(self, form: WeightFormat, weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
        packed = form.pack(weight, bias)
        self._memory.append(packed)
        return packed.struct

    def _pack_rows(self, *linears: nn.Linear) -> Any:
        weight = torch.cat([linear.weight for linear in linears])
        if all(linear.bias is None for linear in linears):
            return self._pack(weight, None)
        return self._pack(weight, torch.cat([_bias(linear) for linear in linears]))

    def _pack_gate_up(self, gate: nn.Linear, up: nn.Linear) -> Any:
        weight = interleave_gate_up(gate.weight, up.weight)
        if gate.bias is None and up.bias is None:
            return self._pack(weight, None)
        return self._pack(weight, interleave_gate_up(_bias(gate), _bias(up)))


def _bias(linear: nn.Linear) -> torch.Tensor:
    if linear.bias is None:
        return torch.zeros(linear.out_features, dtype=linear.weight.dtype)
    return linear.bias
