"""Logits of few tokens, from single columns of a packed head."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.verifier.native.library import load_library
from dspark.verifier.native.structs import PackedLinearStruct


class RestrictedHead:
    """Reads only what it needs of the head, so it costs by the number of tokens."""

    def __init__(self, head: PackedLinearStruct, logit_cap: float) -> None:
        """``head`` points to memory that must outlive this; ``logit_cap`` 0 means none."""
        self._head = head
        self._logit_cap = logit_cap

    def logits(
        self, states: NDArray[np.float32], token_ids: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """[num_states, num_tokens] of states [num_states, hidden_size] that the head may get."""
        rows = np.empty((len(token_ids), self._head.k), dtype=np.float32)
        ids = np.ascontiguousarray(token_ids, dtype=np.int64)
        load_library().dspark_unpack(
            ctypes.byref(self._head), ids.ctypes.data, len(ids), rows.ctypes.data
        )
        # By torch, which has the threads that the model leaves it: numpy's would spin beside ours.
        with torch.inference_mode():
            product = torch.from_numpy(states) @ torch.from_numpy(rows).T
        logits: NDArray[np.float32] = product.numpy()
        if self._head.bias:
            bias = (ctypes.c_float * self._head.n).from_address(self._head.bias)
            logits += np.frombuffer(bias, dtype=np.float32)[ids]
        if self._logit_cap:
            logits = self._logit_cap * np.tanh(logits / self._logit_cap)
        return logits
