"""Any causal language model of ``transformers``, with masks and caches of the caller's."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.cache_utils import Cache
from transformers.utils.logging import disable_progress_bar

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

_UNLIMITED = 1 << 30


class CausalModel:
    """A model in evaluation. Masks are given in full: queries see what the caller says.

    With ``token_ids`` [V'] the LM head is cut down to them; else V' is the whole vocabulary.
    """

    def __init__(self, model: Any, token_ids: Sequence[int] | None = None) -> None:
        if token_ids is not None:
            model.set_output_embeddings(_rows_of(model.get_output_embeddings(), token_ids))
        self._model = model.eval()
        self._accepted = frozenset(inspect.signature(model.forward).parameters)
        self._device = next(model.parameters()).device
        self._dtype = next(model.parameters()).dtype
        config = model.config.get_text_config(decoder=True)
        self.num_layers = int(config.num_hidden_layers)
        self.num_ids = int(model.get_input_embeddings().weight.shape[0])
        self.token_ids: Ids = np.array(
            range(self.num_ids) if token_ids is None else token_ids, dtype=np.int64
        )
        self.max_context = _max_context(config)

    def logits(
        self, token_ids: Ids, positions: Ids, visible: Mask, cache: Cache, wanted: Sequence[int]
    ) -> Floats:
        """[batch, len(wanted), V'] at the queries ``wanted``; the cache gets all queries.

        ``token_ids`` and ``positions`` are [batch, queries], ``visible`` [batch, queries, columns]
        of the cache once the queries are in it.
        """
        lowest = torch.finfo(self._dtype).min
        hidden = torch.from_numpy(~visible).to(self._device)
        mask = torch.zeros(hidden.shape, dtype=self._dtype, device=self._device)
        arguments = {
            "input_ids": torch.from_numpy(token_ids).to(self._device),
            "position_ids": torch.from_numpy(positions).to(self._device),
            "attention_mask": mask.masked_fill_(hidden, lowest)[:, None],
            self._cache_name: cache,
            "use_cache": True,
        }
        rows = torch.tensor(wanted, dtype=torch.int64, device=self._device)
        is_limited = "logits_to_keep" in self._accepted
        if is_limited:
            arguments["logits_to_keep"] = rows
        with torch.inference_mode():
            logits = self._model(**arguments).logits
            chosen = logits if is_limited else logits.index_select(1, rows)
            return np.asarray(chosen.float().cpu().numpy(), dtype=np.float32)

    @property
    def _cache_name(self) -> str:
        return "cache" if "cache" in self._accepted else "past_key_values"


def load_causal_model(directory: Path, token_ids: Sequence[int] | None = None) -> CausalModel:
    """Raises ValueError for a directory that holds no complete causal model."""
    disable_progress_bar()  # type: ignore[no-untyped-call]
    on_gpu = torch.cuda.is_available()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            directory,
            dtype="auto" if on_gpu else torch.float32,
            output_loading_info=True,
            local_files_only=True,
        )
    # Libraries raise all sorts of errors over a damaged file, or one that needs another library.
    except Exception as error:
        raise ValueError(f"{directory} holds no model that can be loaded: {error}") from error
    model, report = loaded
    for problem in ("missing_keys", "mismatched_keys"):
        if wrong := sorted(map(str, report.get(problem, ()))):
            raise ValueError(f"{directory} is damaged: {problem.replace('_', ' ')}: {wrong[0]}")
    return CausalModel(model.to("cuda") if on_gpu else model, token_ids)


def _rows_of(head: nn.Linear, token_ids: Sequence[int]) -> nn.Linear:
    """A head of its own; the matrix it is cut from may be the embedding too, and stays whole."""
    rows = torch.tensor(token_ids, device=head.weight.device)
    part = nn.Linear(head.in_features, len(token_ids), bias=head.bias is not None)
    part.weight = nn.Parameter(head.weight[rows].detach().clone(), requires_grad=False)
    if head.bias is not None:
        part.bias = nn.Parameter(head.bias[rows].detach().clone(), requires_grad=False)
    return part


def _max_context(config: Any) -> int:
    """Within so many tokens any layer sees all before a token, be it of a sliding window."""
    limits = (getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window"))
    return min((int(limit) for limit in limits if limit), default=_UNLIMITED)
