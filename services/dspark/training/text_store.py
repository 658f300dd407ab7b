"""Texts of the target on disk, with their hidden states: appended to, then mapped into memory.

A folder: ``meta.json``, ``tokens.u32``, ``features.bf16`` and ``texts.i64``. The last is written
last, so what a killed writer left behind it is cut off when the folder is opened again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

VERSION = 1

Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True, slots=True)
class StoreMeta:
    """What the texts are of; ``layers`` are numbered as in dspark.features."""

    target_digest: str
    vocab_size: int
    hidden_size: int
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredText:
    """``features`` is bfloat16 as uint16 [num_tokens - 1, num_layers, hidden_size]."""

    token_ids: NDArray[np.uint32]
    num_prompt_tokens: int
    features: NDArray[np.uint16]


def stored_layers(folder: Path) -> tuple[int, ...]:
    """The layers whose hidden states a folder has; none where there is no store yet."""
    path = folder / "meta.json"
    try:
        return tuple(json.loads(path.read_text())["layers"]) if path.exists() else ()
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


class TextStore:
    """The texts of one target. Raises ValueError for a folder of another one."""

    def __init__(self, folder: Path, meta: StoreMeta) -> None:
        self.folder = folder
        self.meta = meta
        folder.mkdir(parents=True, exist_ok=True)
        self._check_meta()
        # [num_texts, 2]: tokens, and those of them that are the prompt
        self._lengths = self._read_lengths()
        self._truncate()

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def num_tokens(self) -> int:
        return int(self._lengths[:, 0].sum())

    @property
    def num_answer_tokens(self) -> int:
        return int((self._lengths[:, 0] - self._lengths[:, 1]).sum())

    def append(
        self, token_ids: Sequence[int], num_prompt_tokens: int, features: NDArray[np.uint16]
    ) -> None:
        """Add a text; ``features`` has the shape of StoredText.features."""
        expected = (len(token_ids) - 1, len(self.meta.layers), self.meta.hidden_size)
        if self.meta.layers and features.shape != expected:
            raise ValueError(f"features are {features.shape}, not {expected}")
        length = np.array([[len(token_ids), num_prompt_tokens]], dtype=np.int64)
        if self.meta.layers:
            _append(self._path("features.bf16"), features)
        _append(self._path("tokens.u32"), np.array(token_ids, dtype=np.uint32))
        _append(self._path("texts.i64"), length)
        self._lengths = np.concatenate((self._lengths, length))

    def texts(self) -> list[StoredText]:
        """All texts, mapped: what is read of them is read from disk."""
        tokens = self._mapped("tokens.u32", np.uint32)
        has_features = bool(self.meta.layers)
        num_rows = self.num_tokens - len(self) if has_features else 0
        shape = (num_rows, len(self.meta.layers), self.meta.hidden_size)
        features = self._mapped("features.bf16", np.uint16).reshape(shape)
        found: list[StoredText] = []
        start = 0
        for index, (length, num_prompt) in enumerate(self._lengths.tolist()):
            rows = slice(start - index, start - index + length - 1)
            if not has_features:
                rows = slice(0, 0)
            found.append(StoredText(tokens[start : start + length], num_prompt, features[rows]))
            start += length
        return found

    def prompts(self) -> set[tuple[int, ...]]:
        """The prompts of all texts."""
        return {tuple(text.token_ids[: text.num_prompt_tokens].tolist()) for text in self.texts()}

    def _check_meta(self) -> None:
        path = self._path("meta.json")
        meta = {"version": VERSION, **asdict(self.meta), "layers": list(self.meta.layers)}
        if not path.exists():
            path.write_text(json.dumps(meta, indent=1))
            return
        try:
            known = json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        if known != meta:
            wrong = sorted(key for key in meta if known.get(key) != meta[key])
            raise ValueError(f"{self.folder} holds other texts: {', '.join(wrong)} differ")

    def _read_lengths(self) -> NDArray[np.int64]:
        path = self._path("texts.i64")
        data = path.read_bytes() if path.exists() else b""
        return np.frombuffer(data[: len(data) // 16 * 16], dtype=np.int64).reshape(-1, 2)

    def _truncate(self) -> None:
        """Cut off what was written for a text that is not in the index."""
        num_rows = self.num_tokens - len(self)
        row_bytes = 2 * len(self.meta.layers) * self.meta.hidden_size
        sizes = {
            "texts.i64": 16 * len(self),
            "tokens.u32": 4 * self.num_tokens,
            "features.bf16": num_rows * row_bytes,
        }
        for name, size in sizes.items():
            path = self._path(name)
            if not path.exists():
                path.touch()
            if path.stat().st_size < size:
                raise ValueError(f"{path} is shorter than its index says")
            with path.open("r+b") as file:
                file.truncate(size)

    def _mapped(self, name: str, dtype: type[Kind]) -> NDArray[Kind]:
        path = self._path(name)
        if not path.stat().st_size:
            return np.empty(0, dtype=dtype)
        return np.memmap(path, dtype=dtype, mode="r")

    def _path(self, name: str) -> Path:
        return self.folder / name


def _append(path: Path, array: NDArray[np.generic]) -> None:
    with path.open("ab") as file:
        file.write(np.ascontiguousarray(array).tobytes())
