"""A static n-gram table: what follows the last tokens in text that the target wrote itself.

One file, mapped into memory. Little-endian: ``MAGIC``, the length of a JSON header (4 bytes) and
the header, zeros up to a multiple of 8, then the arrays of each order, longest context first, each
padded to a multiple of 8:

- ``keys``: uint32, ascending: hashes of the contexts,
- ``token_ids``: ``width`` a context, uint16 or uint32, most likely first,
- ``scores``: as many uint8, the probability in 255ths; 0 where there is no further token.

Two contexts with one hash cost speed, rarely.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

MAGIC = b"DSPARKNG"
VERSION = 1
MAX_ORDER = 8
MAX_SCORE = 255
PROBABILITIES = tuple(score / MAX_SCORE for score in range(MAX_SCORE + 1))
_LENGTH = struct.Struct("<I")
_MASK = 0xFFFFFFFFFFFFFFFF
# Multipliers of MurmurHash3's finalizer.
_FIRST, _SECOND = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53


def context_hash(token_ids: Iterable[int]) -> int:
    """32 bits of a context; ``training.ngram_counts`` computes the same for whole texts."""
    state = 0
    for token_id in token_ids:
        state = ((state ^ token_id) * _FIRST + _SECOND) & _MASK
        state ^= state >> 33
    return state >> 32


@dataclass(frozen=True, slots=True)
class NgramOrder:
    """The contexts of ``order`` tokens; ``width`` continuations of each."""

    order: int
    width: int
    # uint32 [num_contexts], ascending
    keys: Sequence[int]
    # [num_contexts * width]
    token_ids: Sequence[int]
    scores: Sequence[int]

    def continuations(self, key: int) -> list[tuple[int, float]]:
        """(token id, probability) of what follows the context, most likely first."""
        place = bisect_left(self.keys, key)
        if place == len(self.keys) or self.keys[place] != key:
            return []
        first, last = place * self.width, (place + 1) * self.width
        pairs = zip(self.token_ids[first:last], self.scores[first:last], strict=True)
        return [(token_id, PROBABILITIES[score]) for token_id, score in pairs if score]


class NgramTable:
    """``orders`` go from the longest contexts to the shortest."""

    def __init__(self, orders: Sequence[NgramOrder], target_digest: str) -> None:
        self.orders = tuple(orders)
        self.target_digest = target_digest
        self.max_order = max(order.order for order in orders)

    @property
    def num_contexts(self) -> int:
        return sum(len(order.keys) for order in self.orders)

    def successors(self, context: Sequence[int]) -> list[tuple[int, float]]:
        """(token id, probability) of the next tokens, most likely first.

        A context's probability goes to what followed it; what it leaves open is shared out by the
        next shorter context (backing off as in prediction by partial matching, Cleary and Witten
        1984).
        """
        found: dict[int, float] = {}
        left = 1.0
        for order in self.orders:
            if order.order > len(context):
                continue
            spent = 0.0
            for token_id, score in order.continuations(context_hash(context[-order.order :])):
                found[token_id] = found.get(token_id, 0.0) + left * score
                spent += score
            left *= 1.0 - spent
            if left < PROBABILITIES[1]:  # less than the table can tell
                break
        return sorted(found.items(), key=itemgetter(1), reverse=True)


def write_table(path: Path, table: NgramTable, vocab_size: int, about: dict[str, Any]) -> None:
    """Write the file; ``about`` goes into its header, for people."""
    small = vocab_size <= 1 << 16
    parts: list[bytes] = []
    for order in table.orders:
        code = "H" if small else "I"
        for values, kind in ((order.keys, "I"), (order.token_ids, code), (order.scores, "B")):
            parts.append(_padded(struct.pack(f"<{len(values)}{kind}", *values)))
    body = b"".join(parts)
    header = {
        "version": VERSION,
        "target_digest": table.target_digest,
        "vocab_size": vocab_size,
        "orders": [[order.order, order.width, len(order.keys)] for order in table.orders],
        "bytes": len(body),
        "crc32": zlib.crc32(body),
        "about": about,
    }
    text = json.dumps(header, sort_keys=True).encode()
    path.write_bytes(_padded(MAGIC + _LENGTH.pack(len(text)) + text) + body)


def read_table(path: Path) -> NgramTable:
    """Map the file. Raises ValueError for a damaged one, OSError where it cannot be read."""
    with path.open("rb") as file:
        start = file.read(len(MAGIC) + _LENGTH.size)
        if len(start) < len(MAGIC) + _LENGTH.size or not start.startswith(MAGIC):
            raise ValueError(f"{path} is no n-gram table")
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        return _read(data, _LENGTH.unpack_from(start, len(MAGIC))[0])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _read(data: memoryview, header_bytes: int) -> NgramTable:
    first = len(MAGIC) + _LENGTH.size
    header = json.loads(bytes(data[first : first + header_bytes]))
    if header["version"] != VERSION:
        raise ValueError(f"version {header['version']}")
    body = data[_round_up(first + header_bytes) :]
    if len(body) != header["bytes"] or zlib.crc32(body) != header["crc32"]:
        raise ValueError("its contents are not what was written")
    code: Literal["H", "I"] = "H" if header["vocab_size"] <= 1 << 16 else "I"
    view = _Cursor(body)
    orders: list[NgramOrder] = []
    for order, width, num_contexts in header["orders"]:
        size = num_contexts * width
        arrays = view.take("I", num_contexts), view.take(code, size), view.take("B", size)
        orders.append(NgramOrder(order, width, *arrays))
    return NgramTable(orders, header["target_digest"])


class _Cursor:
    """Takes one array after the other."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._offset = 0

    def take(self, kind: Literal["B", "H", "I"], count: int) -> Sequence[int]:
        size = struct.calcsize(kind) * count
        first, self._offset = self._offset, self._offset + _round_up(size)
        return self._body[first : first + size].cast(kind)


def _round_up(size: int) -> int:
    return -(-size // 8) * 8


def _padded(data: bytes) -> bytes:
    return data + bytes(_round_up(len(data)) - len(data))
