"""A model that runs through the forward pass of its transformers class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.verifier.attention.backend import AttentionBackend
from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.kv.kv_cache import KvCache
from dspark.verifier.model.attention_interface import NAME, AttentionContext, register


class StockModel:
    """Any decoder-only model whose attention goes through the attention interface.

    Activations are in ``dtype``; the embedding may be stored in another.
    """

    def __init__(self, model: Any, backend: AttentionBackend, dtype: torch.dtype) -> None:
        register()
        model.set_attn_implementation(NAME)
        self._model = model
        self._backend = backend
        self._dtype = dtype
        self._embed = model.get_input_embeddings()
        self._device = self._embed.weight.device
        self.vocab_size = int(model.config.get_text_config().vocab_size)

    def forward(self, batch: ForwardBatch, kv_cache: KvCache) -> NDArray[np.float32]:
        """Logits of the wanted rows.

        Raises ModelRefused if the model asks more of attention than backends know.
        """
        with torch.inference_mode():
            context = AttentionContext(self._backend, self._backend.plan(batch), kv_cache)
            output = self._model(
                inputs_embeds=self._embed(self._tensor(batch.token_ids))[None].to(self._dtype),
                position_ids=self._tensor(batch.positions)[None],
                logits_to_keep=self._tensor(batch.logits_rows),
                use_cache=False,
                ctx=context,
            )
            logits: NDArray[np.float32] = output.logits[0].float().cpu().numpy()
        return logits

    def _tensor(self, values: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)
