"""Which cached KV block holds which prefix."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dspark.verifier.kv.block_pool import BlockPool


def digest_of(**fields: bytes) -> bytes:
    """SHA-256 of named fields; names and lengths are part of it, so no two field lists collide."""
    digest = hashlib.sha256()
    for name, value in fields.items():
        for part in (name.encode(), value):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.digest()


class PrefixCache:
    """Finds full blocks by a hash chain over all tokens up to their end.

    The chain starts from the model's digest, the kernel class, the block size and the tenant's
    salt, so a block is found only for the same model, arithmetic and tenant. Blocks enter when
    their tokens are committed and their K/V is written, never earlier, and leave when their K/V
    turns out to be bad.
    """

    def __init__(
        self, pool: BlockPool, block_size: int, *, model_digest: str, kernel_class: str
    ) -> None:
        self._pool = pool
        self._block_size = block_size
        self._model_digest = model_digest.encode()
        self._kernel_class = kernel_class.encode()
        self._block_by_hash: dict[bytes, int] = {}
        self._hash_by_block: dict[int, bytes] = {}
        pool.on_evict = self._forget

    def __len__(self) -> int:
        return len(self._block_by_hash)

    def root(self, cache_salt: str) -> bytes:
        """The start of a tenant's hash chains."""
        return digest_of(
            model_digest=self._model_digest,
            kernel_class=self._kernel_class,
            block_size=self._block_size.to_bytes(8, "little"),
            cache_salt=cache_salt.encode(),
        )

    def extend(self, parent: bytes, token_ids: NDArray[np.int64]) -> bytes:
        """The chain's next hash, for one block of tokens."""
        return digest_of(parent=parent, token_ids=token_ids.astype("<u4").tobytes())

    def match(
        self, root: bytes, token_ids: NDArray[np.int64], max_blocks: int
    ) -> tuple[list[int], bytes]:
        """Acquire the longest run of known leading blocks; returns them and the last one's hash."""
        blocks: list[int] = []
        chain = root
        while len(blocks) < max_blocks:
            start = len(blocks) * self._block_size
            following = self.extend(chain, token_ids[start : start + self._block_size])
            block = self._block_by_hash.get(following)
            if block is None:
                break
            self._pool.acquire(block)
            blocks.append(block)
            chain = following
        return blocks, chain

    def insert(self, chain: bytes, block: int) -> None:
        """Make a written block known; a block that repeats a known one stays private."""
        if self._pool.max_cached == 0 or chain in self._block_by_hash:
            return
        self._pool.retain(block)
        self._block_by_hash[chain] = block
        self._hash_by_block[block] = chain

    def forget(self, blocks: Iterable[int]) -> None:
        """Let nobody find these blocks, which are in use, from now on."""
        for block in blocks:
            if block in self._hash_by_block:
                self._pool.discard(block)
                self._forget(block)

    def _forget(self, block: int) -> None:
        del self._block_by_hash[self._hash_by_block.pop(block)]
