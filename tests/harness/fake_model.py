"""A model without weights whose logits depend on the contents that are read through the slots.

Each slot holds what a row wrote there: its position, and a digest of everything the row saw. A
row's digest is a hash of the digests in its visible slots, so one wrong, stale, unwritten or moved
slot anywhere in a row's past changes its logits. ``FakeModel.digests_of`` computes the same from a
plain list of tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dspark.kv_blocks import KvLayout
from dspark.verifier.forward_batch import ForwardBatch, IntArray

UNWRITTEN = -1


def _digest(visible: NDArray[np.uint64], token_id: int, position: int) -> int:
    hashed = hashlib.blake2b(visible.tobytes(), digest_size=8)
    hashed.update(token_id.to_bytes(8, "little") + position.to_bytes(8, "little"))
    return int.from_bytes(hashed.digest(), "little")


class FakeModel:
    """Deterministic logits of a token sequence; ``spread`` is their range."""

    def __init__(self, vocab_size: int = 16, spread: float = 8.0) -> None:
        self.vocab_size = vocab_size
        self.spread = spread

    def digests_of(self, token_ids: Sequence[int]) -> NDArray[np.uint64]:
        """[len(token_ids)] what a plain prefill writes for each token."""
        digests = np.zeros(len(token_ids), dtype=np.uint64)
        for position, token_id in enumerate(token_ids):
            digests[position] = _digest(digests[:position], token_id, position)
        return digests

    def logits_of(self, digest: int) -> NDArray[np.float32]:
        """[vocab_size] logits of the row with this digest."""
        generator = np.random.Generator(np.random.Philox(key=digest))
        return (generator.random(self.vocab_size) * self.spread).astype(np.float32)

    def next_logits(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """[vocab_size] logits of the token that follows, by plain decoding."""
        return self.logits_of(int(self.digests_of(token_ids)[-1]))


class FakeKvStore:
    """Positions and digests by slot, in place of K/V."""

    def __init__(self, num_slots: int, block_size: int = 4) -> None:
        self.layout = KvLayout("digest", 1, block_size, 1, 2, block_bytes=16 * block_size)
        self.positions = np.full(num_slots, UNWRITTEN, dtype=np.int64)
        self.digests = np.zeros(num_slots, dtype=np.uint64)
        self.num_moved = 0

    def move(self, sources: IntArray, destinations: IntArray) -> None:
        assert len(sources) == len(destinations) == len(set(destinations.tolist()))
        self.positions[destinations] = self.positions[sources]
        self.digests[destinations] = self.digests[sources]
        self.num_moved += len(sources)

    def read_blocks(self, blocks: Sequence[int]) -> bytes:
        slots = self._slots(blocks)
        return np.stack([self.positions[slots].view(np.uint64), self.digests[slots]], -1).tobytes()

    def write_blocks(self, blocks: Sequence[int], data: bytes) -> None:
        pairs = np.frombuffer(data, dtype=np.uint64).reshape(-1, 2)
        slots = self._slots(blocks)
        self.positions[slots], self.digests[slots] = pairs[:, 0].view(np.int64), pairs[:, 1]

    def _slots(self, blocks: Sequence[int]) -> NDArray[np.int64]:
        size = self.layout.block_size
        return (np.array(blocks)[:, None] * size + np.arange(size)).ravel()


def fake_feature(digests: NDArray[np.int64], layer: int) -> NDArray[np.float32]:
    """What a layer says of a text; bfloat16 holds it exactly."""
    return (digests.astype(np.uint64) % np.uint64(64)).astype(np.float32) + 64 * layer


class FakeRunner:
    """Runs FakeModel over rows; asserts that each row sees positions 0, 1, 2... up to its own."""

    def __init__(
        self,
        kv: FakeKvStore,
        model: FakeModel,
        *,
        max_model_len: int = 512,
        eos_token_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.kv = kv
        self.model = model
        self.vocab_size = model.vocab_size
        self.max_model_len = max_model_len
        self.eos_token_ids = eos_token_ids
        self.hidden_size = 4
        self.feature_layers = (0, 1, 2)
        self.batches: list[ForwardBatch] = []

    def forward(self, batch: ForwardBatch) -> NDArray[np.float32]:
        self.batches.append(batch)
        _check_shapes(batch)
        for row in range(batch.num_rows):
            self._write(batch, row)
        if batch.features is not None:
            seen = self.kv.digests[batch.slot_mapping[batch.features.rows]]
            for index, layer in enumerate(batch.features.layers):
                batch.features.values[:, index] = fake_feature(seen, layer)[:, None]
        digests = self.kv.digests[batch.slot_mapping[batch.logits_rows]]
        rows = [self.model.logits_of(int(digest)) for digest in digests]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.vocab_size)

    def _write(self, batch: ForwardBatch, row: int) -> None:
        visible, position = visible_slots(batch, row), int(batch.positions[row])
        slot = batch.slot_mapping[row]
        assert visible[-1] == slot, "a row's own slot is the last one it sees"
        assert 0 <= batch.token_ids[row] < self.vocab_size
        self.kv.positions[slot] = position
        seen = self.kv.positions[visible]
        assert (seen == np.arange(position + 1)).all(), f"row {row} sees positions {seen}"
        past = self.kv.digests[visible[:-1]]
        self.kv.digests[slot] = _digest(past, int(batch.token_ids[row]), position)


def visible_slots(batch: ForwardBatch, row: int) -> IntArray:
    """The slots that a row attends to, in position order."""
    prefix_start, tail_start = batch.prefix_starts[row], batch.tail_starts[row]
    prefix = batch.prefix_slots[prefix_start : prefix_start + batch.prefix_lens[row]]
    tail = batch.tail_slots[tail_start : tail_start + batch.tail_lens[row]]
    return np.concatenate([prefix, tail])


def _check_shapes(batch: ForwardBatch) -> None:
    size = batch.num_rows
    for name in ("positions", "slot_mapping", "prefix_starts", "prefix_lens", "tail_starts"):
        assert len(getattr(batch, name)) == size, name
    assert len(batch.tail_lens) == len(batch.sequence_ids) == size
    assert len(set(batch.slot_mapping.tolist())) == size, "two rows write one slot"
    assert (np.diff(batch.logits_rows) > 0).all(), "logits rows ascend"
    for name in ("slot_mapping", "prefix_slots", "prefix_starts", "prefix_lens", "tail_slots"):
        assert getattr(batch, name).dtype == np.int32, name
    assert batch.token_ids.dtype == batch.positions.dtype == batch.logits_rows.dtype == np.int64
