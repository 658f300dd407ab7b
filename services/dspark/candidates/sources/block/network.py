"""The network of the source ``block``: a block of slots that attend to hidden states of the target.

After DSpark (DeepSeek 2026, arXiv:2607.05147), whose draft model takes fused hidden states of some
of the target's layers as further keys and values of each of its own layers. Here the slots of a
block see only slots before them, so a shorter block is the beginning of a longer one, and a slot is
told the anchor and the fused state before it, not a mask token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from dspark.candidates.sources.block.attention import KeyValues, Rotation, attend

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Of a network; ``window`` is of how many tokens before the anchor a block sees."""

    hidden_size: int
    num_features: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    inner_size: int
    num_layers: int = 2
    num_slots: int = 6
    window: int = 128

    def __post_init__(self) -> None:
        """Raises ValueError for sizes that no network has."""
        for name in self.__dataclass_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}")
        if self.num_heads % self.num_kv_heads or self.head_size % 2:
            raise ValueError(
                f"{self.num_heads} heads of size {self.head_size} do not fit {self.num_kv_heads}"
            )


class BlockLayer(nn.Module):
    """Attention and an MLP, each after a norm and added to what it is given."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        hidden, inner = sizes.hidden_size, sizes.inner_size
        self._head_size = sizes.head_size
        self.attention_norm = nn.RMSNorm(hidden, EPSILON)
        self.query = nn.Linear(hidden, sizes.num_heads * sizes.head_size, bias=False)
        self.key_value = nn.Linear(hidden, 2 * sizes.num_kv_heads * sizes.head_size, bias=False)
        self.output = nn.Linear(sizes.num_heads * sizes.head_size, hidden, bias=False)
        self.mlp_norm = nn.RMSNorm(hidden, EPSILON)
        self.gate_up = nn.Linear(hidden, 2 * inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def key_values(self, rows: Tensor, rotation: Rotation) -> KeyValues:
        """Of fused states of the context, or of normed states of a block, [..., hidden_size]."""
        both = self.key_value(rows).unflatten(-1, (2, -1, self._head_size))
        keys, values = both.unbind(-3)
        return KeyValues(rotation(keys), values)

    def forward(
        self, states: Tensor, rotation: Rotation, context: KeyValues, visible: Tensor
    ) -> Tensor:
        """``states`` [B, A, S, hidden_size]; the rest as in ``attend``."""
        normed = self.attention_norm(states)
        queries = rotation(self.query(normed).unflatten(-1, (-1, self._head_size)))
        block = self.key_values(normed, rotation)
        states = states + self.output(attend(queries, context, block, visible))
        gate, up = self.gate_up(self.mlp_norm(states)).chunk(2, dim=-1)
        after: Tensor = states + self.down(functional.silu(gate) * up)
        return after


class BlockNetwork(nn.Module):
    """From hidden states of the target to states that its LM head turns into logits."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        self.sizes = sizes
        hidden = sizes.hidden_size
        self.fuse = nn.Linear(sizes.num_features * hidden, hidden, bias=False)
        self.fuse_norm = nn.RMSNorm(hidden, EPSILON)
        self.slot_input = nn.Linear(2 * hidden, hidden, bias=False)
        self.slots = nn.Parameter(torch.randn(sizes.num_slots, hidden) * 0.02)
        self.layers = nn.ModuleList(BlockLayer(sizes) for _ in range(sizes.num_layers))
        self.norm = nn.RMSNorm(hidden, EPSILON)

    def start_small(self) -> None:
        """What all layers together add to a slot's state starts no longer than the state."""
        for layer in self._layers():
            for projection in (layer.output, layer.down):
                nn.init.normal_(projection.weight, std=0.02 / len(self.layers))

    def fused(self, features: Tensor) -> Tensor:
        """[..., hidden_size] of ``features`` float32 [..., num_features, hidden_size]."""
        # Layers differ a hundredfold in size, and some values of one in as much.
        normed = functional.rms_norm(features, features.shape[-1:], eps=EPSILON)
        rows: Tensor = self.fuse_norm(self.fuse(normed.flatten(-2)))
        return rows

    def context(self, fused: Tensor, positions: Tensor) -> list[KeyValues]:
        """By layer, [..., num_kv_heads, head_size] of fused states at ``positions`` [...]."""
        rotation = Rotation.of(positions, self.sizes.head_size)
        return [layer.key_values(fused, rotation) for layer in self._layers()]

    def states(
        self,
        embedded: Tensor,
        before: Tensor,
        anchors: Tensor,
        context: Sequence[KeyValues],
        visible: Tensor,
        num_slots: int | None = None,
    ) -> Tensor:
        """[B, A, S, hidden_size], normed, for slots that guess the tokens after the anchors.

        ``embedded`` [B, A, hidden_size] are the anchors' normed embeddings, ``before`` the fused
        states of the tokens before them, ``anchors`` int64 [B, A] their positions, ``visible`` [B,
        A, T] the places of the context that a block sees.
        """
        slots = self.slots[: num_slots or self.sizes.num_slots]
        given = self.slot_input(torch.cat((embedded, before), dim=-1))
        states = given.unsqueeze(-2) + slots
        places = anchors[..., None] + torch.arange(len(slots), device=anchors.device)
        rotation = Rotation.of(places, self.sizes.head_size)
        for layer, keys_values in zip(self._layers(), context, strict=True):
            states = layer(states, rotation, keys_values, visible)
        normed: Tensor = self.norm(states)
        return normed

    def _layers(self) -> list[BlockLayer]:
        return [layer for layer in self.layers if isinstance(layer, BlockLayer)]
