"""The model's tokenizer, read from its folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dspark.gateway.detokenizer import IncrementalDetokenizer
from dspark.gateway.token_bytes import TokenBytes

# Longer texts are encoded on a thread, so that streams go on; of the tokenizer's methods only those
# for batches release the interpreter lock.
INLINE_CHARS = 4096
_TOKEN_ID_FIELDS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "pad_token": "pad_token_id",
}
_SPECIAL_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


class TextTokenizer:
    """Encodes with special tokens parsed and nothing added; decodes without special tokens."""

    def __init__(self, model_dir: Path) -> None:
        path = model_dir / "tokenizer.json"
        if not path.is_file():
            raise ValueError(f"{path} does not exist; the gateway needs the model's tokenizer")
        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # Byte-level vocabularies spell a token with one character a byte, which is never fewer.
        self.max_token_chars = max(map(len, self._tokenizer.get_vocab(with_added_tokens=True)))
        added = self._tokenizer.get_added_tokens_decoder()
        self.special_ids = frozenset(i for i, token in added.items() if token.special)
        self.token_bytes = TokenBytes(self._tokenizer)

    async def encode(self, text: str) -> tuple[int, ...]:
        if len(text) <= INLINE_CHARS:
            return self.encode_now(text)
        encodings = await asyncio.to_thread(
            self._tokenizer.encode_batch, [text], add_special_tokens=False
        )
        return tuple(encodings[0].ids)

    def encode_now(self, text: str) -> tuple[int, ...]:
        """As ``encode``, however long it takes."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def least_tokens(self, text: str) -> int:
        """A number of tokens that the text has at least, found without encoding it."""
        return len(text) // self.max_token_chars

    def encode_nothing(self) -> tuple[int, ...]:
        """What the tokenizer itself adds to an empty text, such as a beginning of sequence."""
        return tuple(self._tokenizer.encode("", add_special_tokens=True).ids)

    async def encode_whole(self, text: str) -> tuple[int, ...]:
        """With what the tokenizer itself adds around texts."""
        encodings = await asyncio.to_thread(
            self._tokenizer.encode_batch, [text], add_special_tokens=True
        )
        return tuple(encodings[0].ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=True)

    async def decode_whole(self, token_ids: Sequence[int]) -> str:
        """With special tokens as text."""
        if len(token_ids) <= INLINE_CHARS:
            return self._decode_all(token_ids)
        texts = await asyncio.to_thread(
            self._tokenizer.decode_batch, [list(token_ids)], skip_special_tokens=False
        )
        return str(texts[0])

    def token(self, token_id: int) -> str | None:
        return self._tokenizer.id_to_token(token_id)

    def has_token(self, token: str) -> bool:
        return self._tokenizer.token_to_id(token) is not None

    def special_id(self, token: str) -> int | None:
        """The id of a special token; None for any other text."""
        token_id = self._tokenizer.token_to_id(token)
        return token_id if token_id in self.special_ids else None

    def detokenizer(
        self,
        prompt_token_ids: Sequence[int],
        marks: Collection[str] = (),
        keep_special_tokens: bool = False,
    ) -> IncrementalDetokenizer:
        """For the continuation of a prompt; ``marks`` are tokens that are text, special or not."""
        marked = frozenset(map(self._tokenizer.token_to_id, marks))
        skipped = frozenset() if keep_special_tokens else self.special_ids - marked
        return IncrementalDetokenizer(self._decode_all, skipped, prompt_token_ids)

    def _decode_all(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=False)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file, empty without a file; raises ValueError that names a broken one."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object")
    return value


def special_tokens(model_dir: Path, tokenizer: TextTokenizer) -> dict[str, str]:
    """Names such as ``eos_token`` to token texts, as chat templates use them."""
    declared = {
        **read_json(model_dir / "special_tokens_map.json"),
        **read_json(model_dir / "tokenizer_config.json"),
    }
    tokens: dict[str, str] = {}
    for name in _SPECIAL_TOKENS:
        value = declared.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            tokens[name] = text
    model = {
        **read_json(model_dir / "config.json"),
        **read_json(model_dir / "generation_config.json"),
    }
    for name, id_field in _TOKEN_ID_FIELDS.items():
        token_id = model.get(id_field)
        first = token_id[0] if isinstance(token_id, list) and token_id else token_id
        known = tokenizer.token(first) if isinstance(first, int) else None
        if name not in tokens and known is not None:
            tokens[name] = known
    return tokens
