"""The bytes of single tokens, which text cannot always tell: a character may span tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from tokenizers import Tokenizer

Spell = Callable[[int], bytes]
"""From a token id to its bytes."""

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_METASPACE = "\u2581"


class TokenBytes:
    """Spells tokens of one tokenizer, special tokens by their names; unknown ids are no bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._added = {token_id: token.content for token_id, token in added.items()}
        kinds = set(_decoder_kinds(tokenizer))
        self._spell_piece: Callable[[str], bytes] | None = None
        if "ByteLevel" in kinds:
            self._spell_piece = _spell_byte_level
        elif kinds & {"ByteFallback", "Metaspace"}:
            self._spell_piece = _spell_metaspace

    def __call__(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id].encode()
        piece = self._tokenizer.id_to_token(token_id)
        if piece is None:
            return b""
        if self._spell_piece is None:
            return self._tokenizer.decode([token_id], skip_special_tokens=False).encode()
        return self._spell_piece(piece)


def token_text(data: bytes) -> str:
    """A token's text; the bytes as ``\\xNN`` where they are no whole characters."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in data)


def is_whole(data: bytes) -> bool:
    """Whether the bytes are whole characters."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoder_kinds(tokenizer: Tokenizer) -> Iterator[str]:
    if tokenizer.decoder is None:
        return
    parts: list[dict[str, Any]] = [json.loads(tokenizer.decoder.__getstate__())]
    while parts:
        part = parts.pop()
        yield part["type"]
        parts += part.get("decoders", ())


def _byte_level_alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (GPT-2's mapping)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + place): byte for place, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


_ALPHABET = _byte_level_alphabet()


def _spell_byte_level(piece: str) -> bytes:
    if all(char in _ALPHABET for char in piece):
        return bytes(_ALPHABET[char] for char in piece)
    return piece.encode()


def _spell_metaspace(piece: str) -> bytes:
    if match := _BYTE_PIECE.fullmatch(piece):
        return bytes([int(match[1], 16)])
    return piece.replace(_METASPACE, " ").encode()
