"""The heads of the source ``medusa`` as they are trained (Cai et al. 2024, arXiv:2401.10774).

Beyond Medusa's residual block, each head sees the anchor's embedding, and a low-rank Markov bias
adds what is likely after the token before.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dspark.candidates.target_matrices import TargetMatrices, rms_normalised
from dspark.training.draft_anchors import AnchorBatch
from dspark.training.text_batches import NO_LABEL

NUM_HEADS = 4
RANK = 64
# Later heads count less: they are tried less often, and are harder to get right.
DECAY = 4.0


class MedusaModel(nn.Module):
    """K heads over a draft vocabulary of V' tokens; the target's own matrices stay as they are."""

    def __init__(
        self, target: TargetMatrices, token_ids: NDArray[np.int64], num_heads: int = NUM_HEADS
    ) -> None:
        super().__init__()
        self.num_heads, self._target = num_heads, target
        hidden_size, vocab = target.hidden_size, len(token_ids)
        self.blocks = nn.Linear(2 * hidden_size, num_heads * hidden_size)
        self.markov_first = nn.Parameter(torch.randn(vocab + 1, RANK) * 0.02)
        self.markov_second = nn.Parameter(torch.zeros(vocab, RANK))
        self.head: Tensor
        self.register_buffer("head", torch.from_numpy(target.head_rows(token_ids)), False)

    def base_logits(self, batch: AnchorBatch) -> Tensor:
        """[N, K, V'] without the Markov bias."""
        device = self.head.device
        hidden = torch.from_numpy(batch.hidden).to(device)
        embedded = rms_normalised(self._target.embedding_rows(batch.anchors))
        inputs = torch.cat((hidden, torch.from_numpy(embedded).to(device)), dim=1)
        blocks = functional.silu(self.blocks(inputs)).view(len(hidden), self.num_heads, -1)
        states: Tensor = blocks + hidden[:, None]
        return states @ self.head.T

    def bias(self, batch: AnchorBatch) -> Tensor:
        """[N, K, V'] of the true tokens before."""
        previous = torch.from_numpy(batch.previous).to(self.head.device)
        return self.markov_first[previous] @ self.markov_second.T

    def loss(self, batch: AnchorBatch) -> Tensor:
        """Cross-entropy of all heads, weighted by depth, a label; labels outside count nothing."""
        logits = self.base_logits(batch) + self.bias(batch)
        labels = torch.from_numpy(batch.labels).to(logits.device)
        losses = functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=NO_LABEL, reduction="none"
        ).view(labels.shape)
        weights = torch.exp(-torch.arange(self.num_heads, device=logits.device) / DECAY)
        valid = (labels != NO_LABEL) * weights
        return (losses * valid).sum() / valid.sum().clamp_min(1e-6)

    def parameter_groups(self, rate: float) -> list[dict[str, object]]:
        """The Markov bias starts at nothing and learns three times as fast."""
        markov = [self.markov_first, self.markov_second]
        return [
            {"params": list(self.blocks.parameters()), "lr": rate},
            {"params": markov, "lr": 3 * rate},
        ]
