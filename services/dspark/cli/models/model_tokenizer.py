"""The tokenizer of a prepared model, for texts that become token ids of that model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dspark.cli.failure import CliError
from dspark.cli.models.model_config import config_number

_USAGE = 2
_FILE = "tokenizer.json"


def tokenizer_digest(directory: Path) -> bytes:
    """The SHA-256 of the tokenizer's file: models with the same one share their token ids."""
    return hashlib.sha256((directory / _FILE).read_bytes()).digest()


class ModelTokenizer:
    """Encodes with special tokens parsed, and adds none."""

    def __init__(self, directory: Path) -> None:
        """Raises CliError if the directory's tokenizer does not load."""
        self._path = directory / _FILE
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(self._path))
        # The package raises nothing more special.
        except Exception as error:
            raise CliError(f"{self._path}: {error}", _USAGE) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._model_vocab_size = config_number(directory, "vocab_size")

    @property
    def vocab_size(self) -> int:
        """The model's, which may be above the number of tokens that the tokenizer has."""
        return self._model_vocab_size or int(self._tokenizer.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """Raises CliError for a token that the model does not have."""
        token_ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        limit = self._model_vocab_size
        if limit is not None and max(token_ids, default=0) >= limit:
            problem = f"gives token {max(token_ids)} of a model with {limit}"
            raise CliError(f"{self._path}: {problem}", _USAGE)
        return token_ids

    def prefix(self) -> list[int]:
        """What the tokenizer itself puts before a text, such as a beginning of sequence."""
        plain = self._tokenizer.encode("a", add_special_tokens=False).ids
        full: list[int] = self._tokenizer.encode("a", add_special_tokens=True).ids
        starts = range(len(full) - len(plain) + 1)
        return next((full[:at] for at in starts if full[at : at + len(plain)] == plain), [])
