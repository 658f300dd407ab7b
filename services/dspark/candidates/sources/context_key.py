"""Names of contexts in a shared store: what is different never has the same name."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
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
    """Separates models and tenants."""
    return _spelled(b"continuations", ((b"m", model_id), (b"t", cache_salt)))


def corpus_key(model_id: str, name: str) -> bytes:
    """Separates corpora from each other, by model, and from all namespaces."""
    return _spelled(b"corpus", ((b"m", model_id), (b"c", name)))


def _spelled(kind: bytes, fields: Iterable[tuple[bytes, str]]) -> bytes:
    """Every field is tagged and carries its length, so that no two lists of fields spell the same
    bytes.
    """
    packed = ((tag, text.encode()) for tag, text in fields)
    tagged = b"".join(tag + struct.pack(">I", len(text)) + text for tag, text in packed)
    return b"dspark:%s:%d:" % (kind, FORMAT_VERSION) + tagged


def context_key(space: bytes, token_ids: Sequence[int]) -> ContextKey:
    """The key of a context, given as its tokens."""
    packed = struct.pack(f"<{len(token_ids)}I", *token_ids)
    digest = blake2b(packed, digest_size=DIGEST_BYTES).digest()
    return ContextKey(space, len(token_ids), digest)
