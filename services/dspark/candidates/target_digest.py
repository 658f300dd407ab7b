"""Identifies the target that learned weights fit, by the contents of its weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO

from dspark.candidates.safetensors_file import read_header

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
        header, first = read_header(path, file)
        header.pop("__metadata__", None)
        return [(name, _tensor(file, first, entry)) for name, entry in header.items()]


def _tensor(file: BinaryIO, first: int, entry: dict[str, Any]) -> tuple[str, bytes]:
    start, end = entry["data_offsets"]
    file.seek(first + start)
    return f"{entry['dtype']} {entry['shape']}", file.read(min(end - start, _BYTES_A_TENSOR))
