"""A model that runs through the forward pass of its transformers class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.features import FINAL_LAYER
from dspark.verifier.attention.backend import AttentionBackend
from dspark.verifier.device.transfer import transfer_for
from dspark.verifier.feature_buffer import FeatureBuffer
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.attention_interface import NAME, AttentionContext, register


@dataclass(frozen=True, slots=True)
class PassInputs:
    """What a pass reads beside its plan, on the device: int64 [rows], [rows] and [num_logits]."""

    token_ids: torch.Tensor
    positions: torch.Tensor
    logits_rows: torch.Tensor


class StockModel:
    """Any decoder-only model whose attention goes through the attention interface.

    Activations are in ``dtype``; the embedding may be stored in another.
    """

    def __init__(self, model: Any, backend: AttentionBackend, dtype: torch.dtype) -> None:
        register()
        model.set_attn_implementation(NAME)
        self.backend = backend
        self._model = model
        self._dtype = dtype
        self._embed = model.get_input_embeddings()
        self.transfer = transfer_for(self._embed.weight.device)
        config = model.config.get_text_config()
        self.vocab_size = int(config.vocab_size)
        self.hidden_size = int(config.hidden_size)
        # transformers keeps of the last layer only the normed state, which FINAL_LAYER is.
        self.feature_layers = tuple(range(config.num_hidden_layers))

    def forward(self, batch: ForwardBatch, kv_cache: KvCache) -> NDArray[np.float32]:
        """Logits of the wanted rows.

        Raises ModelRefused if the model asks more of attention than backends know.
        """
        with torch.inference_mode():
            plan = self.backend.plan(batch)
            output = self._call(self.inputs(batch), plan, kv_cache, batch.features is not None)
            if batch.features is not None:
                self._export(output.hidden_states, batch.features)
            return self.transfer.to_host(output.logits[0].float())

    def inputs(self, batch: ForwardBatch) -> PassInputs:
        """The batch's own arrays, on the device."""
        arrays = [batch.token_ids, batch.positions, batch.logits_rows]
        return PassInputs(*self.transfer.to_device(arrays))

    def run(self, inputs: PassInputs, plan: Any, kv_cache: KvCache) -> torch.Tensor:
        """Logits [num_logits, vocab_size], float32, still on the device."""
        logits: torch.Tensor = self._call(inputs, plan, kv_cache, False).logits[0].float()
        return logits

    def _call(
        self, inputs: PassInputs, plan: Any, kv_cache: KvCache, with_hidden_states: bool
    ) -> Any:
        return self._model(
            inputs_embeds=self._embed(inputs.token_ids)[None].to(self._dtype),
            position_ids=inputs.positions[None],
            logits_to_keep=inputs.logits_rows,
            use_cache=False,
            output_hidden_states=with_hidden_states,
            ctx=AttentionContext(self.backend, plan, kv_cache),
        )

    def _export(self, hidden_states: Any, wanted: FeatureBuffer) -> None:
        """transformers gives the embeddings, what each layer leaves, and the last one normed."""
        rows = torch.from_numpy(wanted.rows).to(self._embed.weight.device)
        for index, layer in enumerate(wanted.layers):
            values = hidden_states[-1 if layer == FINAL_LAYER else layer][0, rows]
            wanted.values[:, index] = values.float().cpu().numpy()
