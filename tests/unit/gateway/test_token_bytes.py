"""Single tokens as bytes, in each kind of vocabulary."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models

from dspark.gateway.token_bytes import TokenBytes, token_text
from harness.byte_tokenizer import EOS, byte_tokenizer, metaspace_tokenizer


def test_byte_level_tokens_split_characters_anywhere() -> None:
    pieces = [b" ha", b"P!\xe2", b"\x82\xac"]
    spell = TokenBytes(byte_tokenizer(pieces))
    assert [spell(i) for i in range(256)] == [bytes([i]) for i in range(256)]
    assert [spell(256 + i) for i in range(len(pieces))] == pieces


def test_metaspace_tokens_and_byte_fallback() -> None:
    spell = TokenBytes(metaspace_tokenizer(["▁Hello", "▁", "é", "a▁b"]))
    assert [spell(i) for i in (0, 0xE2, 255)] == [b"\x00", b"\xe2", b"\xff"]
    assert [spell(256 + i) for i in range(4)] == [b" Hello", b" ", "é".encode(), b"a b"]


def test_special_tokens_are_their_names_and_unknown_ids_nothing() -> None:
    tokenizer = byte_tokenizer()
    spell = TokenBytes(tokenizer)
    assert spell(tokenizer.token_to_id(EOS)) == EOS.encode()
    assert spell(10**6) == b""


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(prefix="##")])
def test_other_vocabularies_are_spelled_by_their_decoder(decoder: object) -> None:
    tokenizer = Tokenizer(models.WordLevel({"über": 0, "x": 1}, unk_token="x"))
    if decoder is not None:
        tokenizer.decoder = decoder
    assert TokenBytes(tokenizer)(0) == "über".encode()


def test_a_part_of_a_character_reads_as_its_bytes() -> None:
    assert token_text("€".encode()) == "€"
    assert token_text(b"a\xe2\x82") == "\\x61\\xe2\\x82"
