"""Shows on the loaded model that a row's logits depend on nothing but its own path."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.forward_batch import ForwardBatch
from dspark.verifier.model.probe_rows import ProbeRow, plain_rows, probe_batch

Forward = Callable[[ForwardBatch], NDArray[np.float32]]

_LENGTH = 20
_DEPTH = 4
_ROW_COUNTS = (2, 3, 5, 8, 17, 33, 64)


class RowInvarianceTest:
    """Compares one sequence computed in several ways, bit for bit.

    The reference is its tokens one by one. The others are: all at once, among random neighbours
    at several row counts, and as a token tree whose K/V lies scattered over the pool.
    """

    def __init__(self, forward: Forward, vocab_size: int, num_slots: int, block_size: int) -> None:
        self._forward = forward
        self._vocab_size = vocab_size
        self._num_slots = num_slots
        self._block_size = block_size
        self._random = random.Random(0)
        self._tokens = self._random_tokens(_LENGTH)
        self._reference = np.empty((0, 0), dtype=np.float32)

    def failures(self, max_rows: int = max(_ROW_COUNTS)) -> list[str]:
        """What differed, in words; empty if all ways agree. Writes to slots of the whole pool."""
        if self._num_slots < 2 * self._num_blocks(_LENGTH + _DEPTH) * self._block_size:
            return [f"a pool of {self._num_slots} slots is too small for the test"]
        self._reference = self._one_by_one()
        return list(self._differences(max_rows))

    def _differences(self, max_rows: int) -> Iterator[str]:
        if not np.array_equal(self._at_once(), self._reference):
            yield "prefill in one chunk"
        for rows in _ROW_COUNTS:
            if rows <= max_rows and not np.array_equal(self._among(rows), self._reference[-1]):
                yield f"one row among {rows}"
        if not np.array_equal(self._as_tree(), self._reference[-_DEPTH:]):
            yield "tree rows"

    def _one_by_one(self) -> NDArray[np.float32]:
        rows = plain_rows(self._tokens, range(_LENGTH))
        return np.concatenate([self._logits([row], [0]) for row in rows])

    def _at_once(self) -> NDArray[np.float32]:
        start = self._num_blocks(_LENGTH) * self._block_size
        return self._logits(plain_rows(self._tokens, range(start, start + _LENGTH)), range(_LENGTH))

    def _among(self, num_rows: int) -> NDArray[np.float32]:
        """The last token's row, computed again amid rows of other sequences of other lengths.

        Each has a block of its own: half are first tokens, half are nodes after tokens of the test.
        """
        row = plain_rows(self._tokens, range(_LENGTH))[-1]
        free = self._blocks_from(self._num_blocks(_LENGTH))
        neighbours = []
        for index in range(num_rows - 1):
            token, length = self._random_tokens(1)[0], self._random.randrange(1, _LENGTH)
            own = (free[index % len(free)] * self._block_size,)
            is_node = index % 2 == 0
            neighbours.append(
                ProbeRow(token, *((tuple(range(length)), own) if is_node else (own,)))
            )
        place = self._random.randrange(num_rows)
        rows = [*neighbours[:place], row, *neighbours[place:]]
        logits: NDArray[np.float32] = self._logits(rows, range(num_rows))[place]
        return logits

    def _as_tree(self) -> NDArray[np.float32]:
        """The last tokens as a path of tree nodes, each after a sibling, in scattered blocks."""
        committed = _LENGTH - _DEPTH
        size, count = self._block_size, self._num_blocks(_LENGTH + _DEPTH)
        blocks = self._random.sample(self._blocks_from(self._num_blocks(_LENGTH)), count)
        slots = [block * size + offset for block in blocks for offset in range(size)]
        prefix, own = tuple(slots[:committed]), slots[committed:]
        self._logits(plain_rows(self._tokens[:committed], prefix), [0])
        rows: list[ProbeRow] = []
        path: tuple[int, ...] = ()
        for depth, token in enumerate(self._tokens[committed:]):
            sibling = ProbeRow(self._random_tokens(1)[0], prefix, (*path, own[2 * depth]))
            path = (*path, own[2 * depth + 1])
            rows += [sibling, ProbeRow(token, prefix, path)]
        return self._logits(rows, range(len(rows)))[1::2]

    def _num_blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_size)

    def _blocks_from(self, first: int) -> range:
        return range(first, self._num_slots // self._block_size)

    def _logits(self, rows: list[ProbeRow], wanted: range | list[int]) -> NDArray[np.float32]:
        batch = probe_batch(rows, wanted, self._block_size)
        return np.array(self._forward(batch))

    def _random_tokens(self, count: int) -> list[int]:
        return [self._random.randrange(self._vocab_size) for _ in range(count)]
