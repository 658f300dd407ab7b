"""What a corpus says of itself, at the head of its file and in Redis.

64 bytes, little-endian: magic (8), version (4), size of the vocabulary (4), SHA-256 of the
tokenizer's file (32), number of tokens (8), number of contexts (8).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_MAGIC = b"dscorpus"
_VERSION = 1
_FORM = struct.Struct("<8sII32sQQ")
INFO_BYTES = _FORM.size


@dataclass(frozen=True, slots=True)
class CorpusInfo:
    """Whose token ids a corpus holds, and how much of what.

    ``vocab_size`` is the model's, not the number of tokens in use; ``tokenizer`` is the SHA-256 of
    its ``tokenizer.json``.
    """

    vocab_size: int
    tokenizer: bytes
    num_tokens: int
    num_contexts: int

    def to_bytes(self) -> bytes:
        return _FORM.pack(
            _MAGIC,
            _VERSION,
            self.vocab_size,
            self.tokenizer,
            self.num_tokens,
            self.num_contexts,
        )

    @classmethod
    def from_bytes(cls, packed: bytes) -> CorpusInfo:
        """Raises ValueError for what is no corpus, or one of another version."""
        if len(packed) != INFO_BYTES or not packed.startswith(_MAGIC):
            raise ValueError("is no corpus")
        _, version, *fields = _FORM.unpack(packed)
        if version != _VERSION:
            raise ValueError(f"is of version {version}; this is for version {_VERSION}")
        return cls(*fields)

    def check_vocabulary(self, vocab_size: int | None) -> None:
        """Raises ValueError if the model has another vocabulary; None says nothing of it."""
        if vocab_size is not None and vocab_size != self.vocab_size:
            raise ValueError(
                f"is made for a vocabulary of {self.vocab_size} tokens, the model has {vocab_size}"
            )
