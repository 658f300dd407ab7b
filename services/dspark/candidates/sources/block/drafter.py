"""The network of the source ``block`` at work for several sequences at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dspark.candidates.safetensors_file import from_bfloat16
from dspark.candidates.sources.block.attention import KeyValues
from dspark.candidates.sources.block.context_window import ContextWindow
from dspark.candidates.sources.block.network import BlockNetwork
from dspark.candidates.sources.draft_heads import Floats, MarkovBias, TokenIds
from dspark.candidates.sources.head_guesses import WIDTH, TopLogits
from dspark.candidates.target_matrices import TargetMatrices, rms_normalised


class Anchor(NamedTuple):
    """The last token of a sequence, of which ``window`` has all features that came."""

    token_id: int
    position: int
    window: ContextWindow


class BlockDrafter:
    """Slot j (from 0) guesses the token j + 1 places after the anchor.

    ``head`` turns states [..., hidden_size] into logits over the draft vocabulary ``token_ids``
    [V']; ``temperatures`` [num_slots] are what each slot's logits are divided by, so that
    probabilities come true; ``layers`` are those of the features, as in dspark.features.
    """

    def __init__(
        self,
        network: BlockNetwork,
        head: torch.nn.Module,
        target: TargetMatrices,
        token_ids: TokenIds,
        markov: MarkovBias,
        temperatures: Floats,
        layers: tuple[int, ...],
    ) -> None:
        self.sizes, self.layers = network.sizes, layers
        self.vocab_size = target.vocab_size
        self.token_ids, self.temperatures = token_ids, temperatures
        self._network, self._head, self._target, self._markov = network, head, target, markov
        self._device = network.slots.device

    def new_window(self) -> ContextWindow:
        """Of a sequence of which no features came yet."""
        return ContextWindow(self.sizes, self._device)

    def bias(self, previous: int, columns: TokenIds) -> NDArray[np.float32]:
        """[num_columns] what is added to logits where ``previous`` is the token before."""
        return self._markov.of(previous, columns)

    def top(
        self, anchors: Sequence[Anchor], num_slots: int, noise: Floats | None = None
    ) -> TopLogits:
        """Of [R, num_slots], as ``top_logits`` gives them, without the Markov bias; ``noise`` [R,
        num_slots, V'] is added to the logits.
        """
        with torch.inference_mode():
            temperatures = torch.from_numpy(self.temperatures[:num_slots]).to(self._device)
            logits = self.logits(anchors, num_slots)
            if noise is not None:
                logits = logits + torch.from_numpy(noise).to(self._device)
            scaled = logits / temperatures[:, None]
            likeliest, columns = scaled.topk(min(WIDTH, scaled.shape[-1]), sorted=False)
            covered = (likeliest.logsumexp(dim=-1) - scaled.logsumexp(dim=-1)).exp()
            found = (columns, likeliest, covered.clamp_max(1.0))
            return TopLogits(*(tensor.cpu().numpy() for tensor in found))

    def logits(self, anchors: Sequence[Anchor], num_slots: int) -> torch.Tensor:
        """[R, num_slots, V'] float32 without the Markov bias."""
        with torch.inference_mode():
            windows = [anchor.window for anchor in anchors]
            self._catch_up(windows)
            token_ids = np.array([anchor.token_id for anchor in anchors], dtype=np.int64)
            embedded = rms_normalised(self._target.embedding_rows(token_ids))
            positions = torch.tensor([[anchor.position] for anchor in anchors], device=self._device)
            held = torch.stack([window.positions for window in windows])[:, None]
            distance = positions[..., None] - held
            states = self._network.states(
                torch.from_numpy(embedded).to(self._device)[:, None],
                torch.stack([window.latest for window in windows])[:, None],
                positions,
                _batched(windows),
                (held >= 0) & (distance > 0) & (distance <= self.sizes.window),
                num_slots=num_slots,
            )
            logits: torch.Tensor = self._head(states[:, 0])
        return logits

    def _catch_up(self, windows: Sequence[ContextWindow]) -> None:
        """Keys and values of all features that came since the windows were last used."""
        waiting = [
            (window, first, features)
            for window in windows
            for first, features in window.take_waiting()
        ]
        if not waiting:
            return
        rows = from_bfloat16(np.concatenate([features for _, _, features in waiting]))
        places = [np.arange(first, first + len(features)) for _, first, features in waiting]
        positions = torch.from_numpy(np.concatenate(places)).to(self._device)
        fused = self._network.fused(torch.from_numpy(rows).to(self._device))
        layers = self._network.context(fused, positions)
        start = 0
        for window, _, features in waiting:
            part = slice(start, start + len(features))
            of_it = [KeyValues(layer.keys[part], layer.values[part]) for layer in layers]
            window.put(positions[part], of_it, fused[part])
            start += len(features)


def _batched(windows: Sequence[ContextWindow]) -> list[KeyValues]:
    """By layer, [num_windows, window, num_kv_heads, head_size]."""
    keys = torch.stack([window.keys for window in windows], dim=1)
    values = torch.stack([window.values for window in windows], dim=1)
    return [KeyValues(*both) for both in zip(keys, values, strict=True)]
