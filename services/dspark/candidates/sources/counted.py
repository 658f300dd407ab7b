"""What followed a context and how often: the value of a store's entry, and its packed form.

Packed, little-endian: version (1 byte), digest of the context (8), then for each continuation its
count (2), its number of tokens (1) and the tokens (4 each), most recently seen first.
"""

from __future__ import annotations

import struct

from dspark.candidates.sources.context_key import DIGEST_BYTES, FORMAT_VERSION

Counted = list[tuple[tuple[int, ...], int]]
"""(token ids, count) of each continuation, most recently seen first."""

MAX_CONTINUATIONS = 16
MAX_TOKENS = 32
MAX_COUNT = 0xFFFF
_HEADER = struct.Struct(f"<B{DIGEST_BYTES}s")
_ENTRY = struct.Struct("<HB")


def count_one(counted: Counted, token_ids: tuple[int, ...]) -> None:
    """Count the continuation once more. When full, the rarest goes, the oldest of those."""
    count = 1
    for index, (known, times) in enumerate(counted):
        if known == token_ids:
            del counted[index]
            count = min(times + 1, MAX_COUNT)
            break
    else:
        if len(counted) >= MAX_CONTINUATIONS:
            rarest = min(range(len(counted)), key=lambda index: (counted[index][1], -index))
            del counted[rarest]
    counted.insert(0, (token_ids, count))


def pack(digest: bytes, counted: Counted) -> bytes:
    """The stored form of what followed the context with this digest."""
    parts = [_HEADER.pack(FORMAT_VERSION, digest)]
    for token_ids, count in counted:
        parts.append(_ENTRY.pack(count, len(token_ids)))
        parts.append(struct.pack(f"<{len(token_ids)}I", *token_ids))
    return b"".join(parts)


def unpack(digest: bytes, value: bytes) -> Counted:
    """What followed the context; empty when the value belongs to another context.

    Raises ValueError when the value is not of this form.
    """
    if len(value) < _HEADER.size:
        raise ValueError("shorter than its header")
    version, owner = _HEADER.unpack_from(value)
    if version != FORMAT_VERSION:
        raise ValueError(f"version {version}")
    if owner != digest:
        return []
    counted: Counted = []
    offset = _HEADER.size
    while offset < len(value):
        offset = _unpack_entry(value, offset, counted)
    return counted


def _unpack_entry(value: bytes, offset: int, counted: Counted) -> int:
    """Append the entry at ``offset``; returns where the next one starts."""
    if offset + _ENTRY.size > len(value):
        raise ValueError("truncated entry")
    count, size = _ENTRY.unpack_from(value, offset)
    offset += _ENTRY.size
    end: int = offset + 4 * size
    if not 1 <= size <= MAX_TOKENS or count < 1 or end > len(value):
        raise ValueError("broken entry")
    if len(counted) == MAX_CONTINUATIONS:
        raise ValueError("too many entries")
    counted.append((struct.unpack_from(f"<{size}I", value, offset), count))
    return end
