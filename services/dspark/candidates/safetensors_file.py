"""Reads safetensors files without torch: a JSON header, then the tensors, mapped into memory."""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100 << 20
_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1"}

Header = dict[str, dict[str, Any]]


def read_header(path: Path, file: BinaryIO) -> tuple[Header, int]:
    """The header as it is, ``__metadata__`` too, and where the tensors begin.

    Raises ValueError if this is no safetensors file.
    """
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if not 2 <= length <= _MAX_HEADER_BYTES:
        raise ValueError(f"{path} is no safetensors file")
    try:
        header = json.loads(file.read(length))
    except ValueError as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from error
    return header, _LENGTH_BYTES + length


class SafetensorsFile:
    """The tensors of one file. Raises OSError, and ValueError for a file that is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            header, first = read_header(path, file)
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[first:]
        self.metadata: dict[str, str] = dict(header.pop("__metadata__", {}))
        self._header = header

    def __contains__(self, name: str) -> bool:
        return name in self._header

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._entry(name)["shape"])

    def floats(self, name: str, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """A tensor, or some of its rows, as float32. Raises ValueError for integers."""
        values = self.raw(name)
        dtype = self._entry(name)["dtype"]
        if dtype not in ("F32", "F16", "BF16"):
            raise ValueError(f"{self.path}: {name} is {dtype}, not floating point")
        picked = values if rows is None else values[rows]
        return from_bfloat16(picked) if dtype == "BF16" else picked.astype(np.float32)

    def temperatures(self, name: str) -> NDArray[np.float32]:
        """Numbers that logits are divided by; raises ValueError where one is not above 0."""
        values = self.floats(name)
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{self.path} is damaged: {name} has one that is not above 0")
        return values

    def raw(self, name: str) -> NDArray[Any]:
        """A tensor where it lies in the file, bfloat16 as uint16."""
        entry = self._entry(name)
        try:
            start, end = entry["data_offsets"]
            dtype = np.dtype(_DTYPES[entry["dtype"]])
            if end - start != math.prod(entry["shape"]) * dtype.itemsize or end > len(self._data):
                raise ValueError("its length is not that of its shape")
            return np.frombuffer(self._data[start:end], dtype).reshape(entry["shape"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path} is damaged: {name}: {error}") from error

    def _entry(self, name: str) -> dict[str, Any]:
        if name not in self._header:
            raise ValueError(f"{self.path} has no tensor {name}")
        return self._header[name]


def from_bfloat16(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """bfloat16 is the upper half of float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)
