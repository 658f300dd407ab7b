"""Names of contexts in a shared store: what is different never has the same name."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

FORMAT_VERSION = 1
DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class ContextKey:
    """The last ``length`` tokens of a text, as a digest, within a namespace."""

    namespace: bytes
    length: int
    digest: bytes

    def to_bytes(self) -> bytes:
        return self.namespace + bytes((self.length,)) + self.digest


def namespace(model_id: str, cache_salt: str) -> bytes:
    """Separates models and tenants.

    Every field is tagged and carries its length, so that no two pairs of fields spell the same
    bytes.
    """
    fields = ((b"m", model_id.encode()), (b"t", cache_salt.encode()))
    tagged = b"".join(tag + struct.pack(">I", len(text)) + text for tag, text in fields)
    return b"dspark:continuations:%d:" % FORMAT_VERSION + tagged


def context_key(space: bytes, token_ids: Sequence[int]) -> ContextKey:
    """The key of a context, given as its tokens."""
    packed = struct.pack(f"<{len(token_ids)}I", *token_ids)
    digest = blake2b(packed, digest_size=DIGEST_BYTES).digest()
    return ContextKey(space, len(token_ids), digest)
