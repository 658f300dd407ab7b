"""Identifies the target that learned weights fit, by the contents of its weights."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, BinaryIO

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100 << 20
# A tensor as long as this is known by its beginning: reading all of a large model takes minutes.
_BYTES_A_TENSOR = 64 << 10


def target_digest(directory: Path) -> str:
    """A hex digest of the names, dtypes and shapes of all tensors, and of each one's first 64 KiB.

    It is the same however the tensors are spread over files, whatever dtype they are served in.
    Raises ValueError for a directory without readable weights.
    """
    digest = hashlib.sha256()
    try:
        tensors = dict(
            sorted(
                entry
                for path in sorted(directory.glob("*.safetensors"))
                for entry in _tensors(path)
            )
        )
    except OSError as error:
        raise ValueError(f"{directory}: {error}") from error
    if not tensors:
        raise ValueError(f"{directory} has no *.safetensors file")
    for name, (description, content) in tensors.items():
        digest.update(f"\n{name} {description} ".encode() + content)
    return digest.hexdigest()


def _tensors(path: Path) -> list[tuple[str, tuple[str, bytes]]]:
    with path.open("rb") as file:
        header, first = _header(path, file)
        return [(name, _tensor(file, first, entry)) for name, entry in header.items()]


def _header(path: Path, file: BinaryIO) -> tuple[dict[str, dict[str, Any]], int]:
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if not 2 <= length <= _MAX_HEADER_BYTES:
        raise ValueError(f"{path} is no safetensors file")
    try:
        header = json.loads(file.read(length))
    except ValueError as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from error
    header.pop("__metadata__", None)
    return header, _LENGTH_BYTES + length


def _tensor(file: BinaryIO, first: int, entry: dict[str, Any]) -> tuple[str, bytes]:
    start, end = entry["data_offsets"]
    file.seek(first + start)
    return f"{entry['dtype']} {entry['shape']}", file.read(min(end - start, _BYTES_A_TENSOR))
