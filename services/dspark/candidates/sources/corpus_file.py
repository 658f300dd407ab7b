"""A corpus in a file, read through the memory map.

Little-endian: info (see ``corpus_info``), number of value bytes (8), CRC-32 of the index and of the
values (4 each), 4 zeros, CRC-32 of the head so far (4); the index: digests in ascending order (8
each), where the value of each ends (8 each); the values, packed as in Redis.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from dspark.candidates.sources.context_key import ContextKey
from dspark.candidates.sources.corpus_index import Entry
from dspark.candidates.sources.corpus_info import INFO_BYTES, CorpusInfo
from dspark.candidates.sources.counted import Counted, pack, unpack
from dspark.candidates.sources.store import KnownContinuations

_SIZES = struct.Struct("<QII4x")
_CHECK = struct.Struct("<I")
_HEAD_BYTES = INFO_BYTES + _SIZES.size + _CHECK.size
_INDEX_BYTES = 16
_CHUNK_BYTES = 1 << 24


def write_corpus(file: BinaryIO, info: CorpusInfo, entries: Iterable[Entry]) -> int:
    """Write ``info.num_contexts`` entries, in ascending order; returns the number of bytes."""
    digests, ends = bytearray(), array("Q")
    values_crc = num_bytes = 0
    start = _HEAD_BYTES + _INDEX_BYTES * info.num_contexts
    file.seek(start)
    for digest, counted in entries:
        value = pack(digest, counted)
        values_crc = crc32(value, values_crc)
        num_bytes += file.write(value)
        digests += digest
        ends.append(num_bytes)
    index = bytes(digests) + np.asarray(ends, "<u8").tobytes()
    head = info.to_bytes() + _SIZES.pack(num_bytes, crc32(index), values_crc)
    file.seek(0)
    file.write(head + _CHECK.pack(crc32(head)) + index)
    return start + num_bytes


class CorpusFile(KnownContinuations):
    """``counts["garbage"]``: values that make no sense, as after a change of the open file."""

    def __init__(self, path: Path) -> None:
        """Reads all of it once. Raises ValueError if it is no corpus, or not as it was written."""
        self.counts = Counter()
        self.info, index_crc, values_crc = _read_head(path)
        try:
            mapped = np.asarray(np.memmap(path, np.uint8, mode="r"))
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from error
        index_end = _HEAD_BYTES + _INDEX_BYTES * self.info.num_contexts
        index = mapped[_HEAD_BYTES:index_end]
        # [num_contexts] each
        self._digests, self._ends = index.view("<u8").reshape(2, -1)
        self._values = mapped[index_end:]
        if (_crc32(index), _crc32(self._values)) != (index_crc, values_crc):
            raise ValueError(f"{path}: is damaged")

    @property
    def num_entries(self) -> int:
        return self.info.num_contexts

    def lookup(self, keys: Sequence[ContextKey]) -> list[Counted]:
        wanted = np.frombuffer(b"".join(key.digest for key in keys), "<u8")
        places = np.searchsorted(self._digests, wanted).tolist()
        return [self._at(place, key.digest) for place, key in zip(places, keys, strict=True)]

    def _at(self, place: int, digest: bytes) -> Counted:
        """The entry there; empty if it is another context's, or none."""
        if place == len(self._digests):
            return []
        start = int(self._ends[place - 1]) if place else 0
        try:
            return unpack(digest, self._values[start : int(self._ends[place])].tobytes())
        except ValueError:
            self.counts["garbage"] += 1
            return []


def read_info(path: Path) -> CorpusInfo:
    """What a corpus says of itself, without a look at the rest. Raises ValueError."""
    return _read_head(path)[0]


def _read_head(path: Path) -> tuple[CorpusInfo, int, int]:
    """What the head says of the corpus, and the checksums of index and values."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            actual = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    try:
        info = CorpusInfo.from_bytes(head[:INFO_BYTES])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    checked = head[: -_CHECK.size]
    if len(head) != _HEAD_BYTES or _CHECK.unpack(head[-_CHECK.size :]) != (crc32(checked),):
        raise ValueError(f"{path}: is damaged")
    num_bytes, index_crc, values_crc = _SIZES.unpack(checked[INFO_BYTES:])
    size = _HEAD_BYTES + _INDEX_BYTES * info.num_contexts + num_bytes
    if actual != size:
        raise ValueError(f"{path}: has {actual} bytes where {size} were written")
    return info, index_crc, values_crc


def _crc32(data: NDArray[np.uint8]) -> int:
    crc = 0
    for start in range(0, len(data), _CHUNK_BYTES):
        crc = crc32(data[start : start + _CHUNK_BYTES].data, crc)
    return crc
