"""Real tokenizers with hand-made vocabularies: pieces and UTF-8 splits can be placed at will."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

EOS = "<|end|>"
TURN = "<|turn|>"
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|turn|>' + m['role'] + ':' + m['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|turn|>assistant:' }}{% endif %}"
)


def byte_alphabet() -> list[str]:
    """The character that stands for each byte 0 to 255 in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(shifted)) for b in range(256)]


_ALPHABET = byte_alphabet()


def byte_tokenizer(pieces: Sequence[bytes] = ()) -> Tokenizer:
    """Token i is byte i for i < 256; then ``pieces`` of several bytes, then EOS and TURN, special.

    Encoding uses bytes only, so text is one token a byte; pieces come only from scripted token ids.
    """
    vocab = {char: byte for byte, char in enumerate(_ALPHABET)}
    for piece in pieces:
        assert len(piece) > 1
        vocab["".join(_ALPHABET[byte] for byte in piece)] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True), AddedToken(TURN, special=True)])
    return tokenizer


def metaspace_tokenizer(pieces: Sequence[str]) -> Tokenizer:
    """A Llama-2-like tokenizer: token i is byte i as ``<0xNN>`` for i < 256; ``pieces`` follow."""
    vocab = {f"<0x{byte:02X}>": byte for byte in range(256)}
    for piece in pieces:
        vocab[piece] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


def write_model_dir(
    folder: Path, tokenizer: Tokenizer | None = None, chat_template: str | None = CHAT_TEMPLATE
) -> Path:
    """A model's folder as far as a gateway reads it."""
    tokenizer = tokenizer or byte_tokenizer()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": EOS, "bos_token": None}
    if chat_template is not None:
        config["chat_template"] = chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": tokenizer.token_to_id(EOS)}))
    return folder
