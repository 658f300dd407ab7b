"""Token chunks to reasoning, content and calls of tools."""

from __future__ import annotations

from dataclasses import replace

from dspark.gateway.parsing.answer_style import AnswerStyle
from dspark.gateway.parsing.call_parser import ParsedText
from dspark.gateway.parsing.reasoning_count import ReasoningCount
from dspark.gateway.parsing.think_tags import SplitText
from dspark.gateway.text_assembly import TextAssembler, TextChunk
from dspark.generation import TokenChunk


class AnswerAssembler:
    """As TextAssembler, for an answer that is told apart.

    Tokens are taken one by one, so that ids and counts end with the token that ends the answer.
    """

    def __init__(self, text: TextAssembler, style: AnswerStyle, request_id: str) -> None:
        self._text = text
        self._shows_reasoning = style.shows_reasoning
        self._splitter = style.splitter()
        self._calls = None if style.calls is None else style.calls.parser(request_id)
        self._reasoning = ReasoningCount(self._splitter)

    @property
    def num_tokens(self) -> int:
        return self._text.num_tokens

    @property
    def stop_string(self) -> str | None:
        return self._text.stop_string

    @property
    def is_over(self) -> bool:
        return self._text.is_over or (self._calls is not None and self._calls.is_over)

    @property
    def has_calls(self) -> bool:
        return self._calls is not None and self._calls.num_calls > 0

    @property
    def reasoning_tokens(self) -> int | None:
        return self._reasoning.num_tokens

    def push(self, tokens: TokenChunk) -> TextChunk:
        chunk = TextChunk("", prompt_logprobs=tokens.prompt_logprobs)
        for place, token_id in enumerate(tokens.token_ids):
            is_accepted = int(place < tokens.num_accepted)
            one = TokenChunk((token_id,), is_accepted, logprobs=tokens.logprobs[place : place + 1])
            chunk = chunk.joined(self._read(self._text.push(one)))
            if self.is_over:
                break
        return chunk.joined(self._rest()) if self._text.is_over else chunk

    def last_chunk(self) -> TextChunk:
        """What is still held back when the tokens end."""
        return self._read(self._text.last_chunk()).joined(self._rest())

    def _read(self, chunk: TextChunk) -> TextChunk:
        split = SplitText(content=chunk.text)
        if self._splitter is not None:
            split = self._splitter.push(chunk.text)
        self._reasoning.count(len(chunk.token_ids))
        parsed = ParsedText(split.content)
        if self._calls is not None and split.content:
            parsed = self._calls.push(split.content)
        return self._told(chunk, split.reasoning, parsed)

    def _rest(self) -> TextChunk:
        """What the readers hold back; it is no call and no tag."""
        split = SplitText() if self._splitter is None else self._splitter.flush()
        parsed = ParsedText(split.content)
        if self._calls is not None:
            parsed = self._calls.push(split.content).joined(self._calls.flush())
        return self._told(TextChunk(""), split.reasoning, parsed)

    def _told(self, chunk: TextChunk, reasoning: str, parsed: ParsedText) -> TextChunk:
        shown = reasoning if self._shows_reasoning else ""
        return replace(
            chunk,
            text=parsed.content,
            reasoning=shown,
            calls=parsed.calls,
            call_places=parsed.call_places,
        )
