"""Blocks of K/V on their way between verifiers (wire form: verifier_service.proto)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from dspark.errors import InvalidArgument

# Bytes of a message of blocks, far below every limit of messages between services.
CHUNK_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class KvLayout:
    """A block is [num_layers, 2, block_size, num_kv_heads, head_dim] of ``dtype``."""

    dtype: str
    num_layers: int
    block_size: int
    num_kv_heads: int
    head_dim: int
    block_bytes: int

    @property
    def token_bytes(self) -> float:
        return self.block_bytes / self.block_size

    @property
    def chunk_blocks(self) -> int:
        """Blocks of one message, at least one."""
        return max(1, CHUNK_BYTES // self.block_bytes)


@dataclass(frozen=True, slots=True)
class BlockType:
    """To what a block belongs beside its tokens: only blocks of one type are alike."""

    model_digest: str
    kernel_class: str
    layout: KvLayout


@dataclass(frozen=True, slots=True)
class KvBlocks:
    """A run of consecutive blocks of a sequence: ``data`` is their bytes, one after the other."""

    first_block: int
    data: bytes
    crc32: int

    @classmethod
    def of(cls, first_block: int, data: bytes) -> KvBlocks:
        return cls(first_block, data, zlib.crc32(data))

    def check(self, layout: KvLayout, next_block: int) -> int:
        """The number of whole blocks; raises InvalidArgument if they are not what was sent."""
        if self.first_block != next_block:
            problem = f"is {self.first_block}, but {next_block} comes next"
            raise InvalidArgument("blocks.first_block", problem)
        if not self.data or len(self.data) % layout.block_bytes:
            problem = f"has {len(self.data)} bytes, not whole blocks of {layout.block_bytes}"
            raise InvalidArgument("blocks.data", problem)
        if zlib.crc32(self.data) != self.crc32:
            raise InvalidArgument("blocks.crc32", "does not match the data")
        return len(self.data) // layout.block_bytes


@dataclass(frozen=True, slots=True)
class ImportHead:
    """What the blocks of an import are: their type, and the text that they were computed from."""

    type: BlockType
    token_ids: tuple[int, ...]
    cache_salt: str
