"""The network of the source ``block`` as it is trained, with the target's LM head and a Markov
bias (DSpark, DeepSeek 2026, arXiv:2607.05147).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dspark.candidates.sources.block.network import BlockNetwork, BlockSizes
from dspark.candidates.target_matrices import TargetMatrices, rms_normalised
from dspark.training.block_batches import BlockBatch
from dspark.training.text_batches import NO_LABEL

RANK = 64
# Later slots count less: they are tried less often, and are harder to get right.
DECAY = 4.0


class BlockModel(nn.Module):
    """Slots over a draft vocabulary of V' tokens; the target's own matrices stay as they are."""

    def __init__(
        self, sizes: BlockSizes, target: TargetMatrices, token_ids: NDArray[np.int64]
    ) -> None:
        super().__init__()
        self._target = target
        self.network = BlockNetwork(sizes)
        self.network.start_small()
        self.markov_first = nn.Parameter(torch.randn(len(token_ids) + 1, RANK) * 0.02)
        self.markov_second = nn.Parameter(torch.zeros(len(token_ids), RANK))
        self.head: Tensor
        self.register_buffer("head", torch.from_numpy(target.head_rows(token_ids)), False)

    def start_at(self, final_states: NDArray[np.float32]) -> None:
        """Let slots' states begin half as long as ``final_states`` [..., hidden_size], which the
        head reads: a beginner is less sure than the target.
        """
        length = float(np.sqrt(np.mean(np.square(final_states))))
        nn.init.constant_(self.network.norm.weight, length / 2)

    def states(self, batch: BlockBatch) -> Tensor:
        """[B, A, S, hidden_size]"""
        device = self.head.device
        features = torch.from_numpy(batch.features).to(device)
        anchors = torch.from_numpy(batch.anchors).to(device)
        embedded = rms_normalised(self._target.embedding_rows(batch.anchor_ids))
        fused = self.network.fused(features)
        places = torch.arange(fused.shape[1], device=device)
        context = self.network.context(fused, places)
        texts = torch.arange(len(fused), device=device)[:, None]
        distance = anchors[..., None] - places
        visible = (distance > 0) & (distance <= self.network.sizes.window)
        before = fused[texts, anchors - 1]
        return self.network.states(
            torch.from_numpy(embedded).to(device),
            before,
            anchors,
            context,
            visible,
            num_slots=batch.labels.shape[-1],
        )

    def base_logits(self, batch: BlockBatch) -> Tensor:
        """[B * A, S, V'] without the Markov bias."""
        return self.states(batch).flatten(0, 1) @ self.head.T

    def bias(self, batch: BlockBatch) -> Tensor:
        """[B * A, S, V'] of the true tokens before."""
        previous = torch.from_numpy(batch.previous).to(self.head.device).flatten(0, 1)
        return self.markov_first[previous] @ self.markov_second.T

    def loss(self, batch: BlockBatch) -> Tensor:
        """Cross-entropy of all slots, weighted by depth, a label; labels outside count nothing."""
        device = self.head.device
        labels = torch.from_numpy(batch.labels).to(device)
        previous = torch.from_numpy(batch.previous).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            states = self.states(batch)
            valid = labels != NO_LABEL
            bias = self.markov_first[previous[valid]] @ self.markov_second.T
            logits = torch.addmm(bias, states[valid], self.head.T)
        losses = functional.cross_entropy(logits.float(), labels[valid], reduction="none")
        depths = torch.arange(labels.shape[-1], device=device).expand(labels.shape)
        weights = torch.exp(-depths[valid] / DECAY)
        return (losses * weights).sum() / weights.sum().clamp_min(1e-6)

    def parameter_groups(self, rate: float) -> list[dict[str, object]]:
        """The Markov bias starts at nothing and learns three times as fast."""
        markov = [self.markov_first, self.markov_second]
        return [
            {"params": list(self.network.parameters()), "lr": rate},
            {"params": markov, "lr": 3 * rate},
        ]
