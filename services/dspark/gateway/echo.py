"""The prompt as the beginning of a completion, for requests that ask for it."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dspark.gateway.client_request import Prompt, TextPrompt
from dspark.gateway.openai_logprobs import ToldToken
from dspark.gateway.token_bytes import Spell
from dspark.gateway.tokenizer import TextTokenizer
from dspark.logprobs import TokenLogprobs


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt's text and tokens."""

    text: str
    token_ids: tuple[int, ...]

    @classmethod
    def of(cls, prompt: Prompt, token_ids: tuple[int, ...], tokenizer: TextTokenizer) -> Echo:
        """What the client wrote, or what its token ids read."""
        text = prompt.text if isinstance(prompt, TextPrompt) else tokenizer.decode(token_ids)
        return cls(text, token_ids)

    def told(
        self, logprobs: Sequence[TokenLogprobs], num_top: int, spell: Spell
    ) -> list[ToldToken]:
        """Its tokens with those of ``logprobs``, which begin with the second."""
        kept: list[TokenLogprobs | None] = [None]
        kept += [_with_top(token, num_top) for token in logprobs]
        offsets = _offsets(self.token_ids, spell)
        return [ToldToken(*token) for token in zip(self.token_ids, offsets, kept, strict=True)]


def _with_top(token: TokenLogprobs, num_top: int) -> TokenLogprobs:
    return replace(
        token,
        top_token_ids=token.top_token_ids[:num_top],
        top_logprobs=token.top_logprobs[:num_top],
    )


def _offsets(token_ids: Sequence[int], spell: Spell) -> list[int]:
    """How many whole characters are before each token."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offsets, num_chars = [], 0
    for token_id in token_ids:
        offsets.append(num_chars)
        num_chars += len(decoder.decode(spell(token_id)))
    return offsets
