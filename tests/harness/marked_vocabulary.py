"""Vocabularies of bytes in which some marks may be tokens of their own, and what matchers take."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llguidance import LLMatcher, LLTokenizer
from tokenizers import AddedToken

from harness.byte_tokenizer import byte_tokenizer


class MarkedVocabulary:
    """``ids`` has the marks' ids where they are special tokens; ``tokenizers`` go by whether."""

    def __init__(self, marks: Sequence[str]) -> None:
        self.ids = {mark: 258 + index for index, mark in enumerate(marks)}
        tokenizer = byte_tokenizer()
        tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in marks])
        assert [tokenizer.token_to_id(mark) for mark in marks] == list(self.ids.values())
        special = LLTokenizer(tokenizer.to_str(), eos_token=[256])
        self.tokenizers = {False: LLTokenizer("byte"), True: special}

    def encode(self, text: str, special: bool) -> list[int]:
        """The text's bytes, where ``special`` with each mark as the token that it is."""
        if not special:
            return list(text.encode())
        pieces = re.split(f"({'|'.join(map(re.escape, self.ids))})", text)
        return [i for p in pieces for i in ([self.ids[p]] if p in self.ids else p.encode())]

    def takes(self, matcher: LLMatcher, text: str, special: bool) -> bool:
        """Whether the matcher, at its beginning, takes the text and may end there."""
        ids = self.encode(text, special)
        if matcher.validate_tokens(ids) != len(ids):
            return False
        return matcher.consume_tokens(ids) and matcher.is_accepting()
