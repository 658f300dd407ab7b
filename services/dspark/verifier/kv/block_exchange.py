"""K/V of a sequence leaves for another verifier, or comes from one, in whole blocks.

What leaves are full blocks of committed, computed tokens, which nothing writes to any more. What
comes goes into the prefix cache under the keys that it would have had if it had been computed here,
so it is found by whoever is admitted with these tokens and this salt, and by nobody else.
"""

from __future__ import annotations

import numpy as np

from dspark.errors import InvalidArgument, UnknownRequest
from dspark.kv_blocks import BlockType, ImportHead, KvBlocks
from dspark.step import SequenceRef
from dspark.verifier.interfaces import KvStore
from dspark.verifier.kv.block_pool import BlockPool
from dspark.verifier.kv.prefix_cache import PrefixCache
from dspark.verifier.sequence_table import SequenceTable

# Share of the pool that imports leave to the sequences that run.
RESERVED_SHARE = 0.1


class BlockExchange:
    """Reads and writes blocks between steps; only the engine's thread may call it."""

    def __init__(
        self,
        sequences: SequenceTable,
        pool: BlockPool,
        cache: PrefixCache,
        kv: KvStore,
        block_type: BlockType,
    ) -> None:
        self.type = block_type
        self._sequences = sequences
        self._pool = pool
        self._cache = cache
        self._kv = kv
        # blocks that left, and that came
        self.num_exported = 0
        self.num_imported = 0

    def export(self, ref: SequenceRef, first_block: int) -> KvBlocks | None:
        """The next blocks from one on, a message's worth; None when there is none.

        Raises UnknownRequest when the incarnation is not live.
        """
        sequence = self._sequences.get(ref.request_id)
        if sequence is None or sequence.epoch != ref.epoch:
            raise UnknownRequest(ref.request_id)
        layout = self.type.layout
        num_full = sequence.num_computed // layout.block_size
        blocks = sequence.table.blocks[
            first_block : min(num_full, first_block + layout.chunk_blocks)
        ]
        if not blocks:
            return None
        self.num_exported += len(blocks)
        return KvBlocks.of(first_block, self._kv.read_blocks(blocks))

    def begin_import(self, head: ImportHead) -> BlockImport:
        """Raises InvalidArgument for blocks that are not those of this verifier."""
        if head.type != self.type:
            raise InvalidArgument("head.type", f"is {head.type}, blocks here are {self.type}")
        return BlockImport(self, head, self._pool, self._cache, self._kv)


class BlockImport:
    """Blocks that come in. It holds those that are here until ``close``, so that none goes."""

    def __init__(
        self,
        exchange: BlockExchange,
        head: ImportHead,
        pool: BlockPool,
        cache: PrefixCache,
        kv: KvStore,
    ) -> None:
        self._exchange = exchange
        self._pool = pool
        self._cache = cache
        self._kv = kv
        self._layout = exchange.type.layout
        self._tokens = np.array(head.token_ids, dtype=np.int64)
        self._num_blocks = min(len(self._tokens) // self._layout.block_size, pool.max_cached)
        self._num_received = 0
        self._held, self._chain = cache.match(
            cache.root(head.cache_salt), self._tokens, self._num_blocks
        )

    @property
    def num_tokens(self) -> int:
        """Leading tokens whose blocks are here."""
        return len(self._held) * self._layout.block_size

    @property
    def is_full(self) -> bool:
        """Whether further blocks are left out."""
        reserve = int(self._pool.num_blocks * RESERVED_SHARE)
        return len(self._held) >= self._num_blocks or self._pool.num_available <= reserve

    def add(self, blocks: KvBlocks) -> None:
        """Take in the next blocks; raises InvalidArgument for what is damaged or out of order."""
        num_blocks = blocks.check(self._layout, self._num_received)
        size = self._layout.block_bytes
        for index in range(num_blocks):
            # One that is here already, or that no longer fits, is passed over.
            if self._num_received == len(self._held) and not self.is_full:
                self._store(blocks.data[index * size : (index + 1) * size])
            self._num_received += 1

    def _store(self, data: bytes) -> None:
        start = len(self._held) * self._layout.block_size
        tokens = self._tokens[start : start + self._layout.block_size]
        (block,) = self._pool.allocate(1)
        self._held.append(block)
        self._kv.write_blocks([block], data)
        self._chain = self._cache.extend(self._chain, tokens)
        self._cache.insert(self._chain, block)
        self._exchange.num_imported += 1

    def close(self) -> None:
        """Let go of the blocks, which the prefix cache now keeps as it keeps all others."""
        held, self._held = self._held, []
        self._pool.release(held)
