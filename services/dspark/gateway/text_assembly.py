"""Token chunks to text chunks: detokenising, stop tokens and stop strings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dspark.gateway.detokenizer import IncrementalDetokenizer
from dspark.gateway.stop_strings import StopStringScanner
from dspark.generation import TokenChunk
from dspark.logprobs import TokenLogprobs
from dspark.tool_calls import ToolCallDelta, shifted_places


@dataclass(frozen=True, slots=True)
class TextChunk:
    """New tokens, ``num_accepted`` of them from candidates, and the text that became certain.

    Where log-probabilities are asked for, each token has some, and an offset: how many characters
    of the text were certain before it. The first chunk has those of the prompt. Where an answer is
    told apart, ``text`` has neither its ``reasoning``, which comes before it, nor its ``calls``. Of
    each of these ``call_places`` says how many characters of this chunk's text come before it.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    num_accepted: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()
    offsets: tuple[int, ...] = ()
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()
    reasoning: str = ""
    calls: tuple[ToolCallDelta, ...] = ()
    call_places: tuple[int, ...] = ()

    @property
    def says_something(self) -> bool:
        return bool(self.text or self.reasoning or self.calls)

    def joined(self, later: TextChunk) -> TextChunk:
        """Both, one after the other."""
        return TextChunk(
            self.text + later.text,
            self.token_ids + later.token_ids,
            self.num_accepted + later.num_accepted,
            self.logprobs + later.logprobs,
            self.offsets + later.offsets,
            self.prompt_logprobs + later.prompt_logprobs,
            self.reasoning + later.reasoning,
            self.calls + later.calls,
            self.call_places + shifted_places(later.call_places, len(self.text)),
        )


@dataclass(frozen=True, slots=True)
class TextOptions:
    """What of an answer's end and of its special tokens is text."""

    # whether the stop string, or the text of the stop token, is
    include_stop: bool = False
    keep_special_tokens: bool = False


class TextAssembler:
    """Turns one request's token chunks into text chunks.

    Its result does not depend on how tokens are split into chunks. Once ``stop_string`` is set the
    request is over: its tokens end with the one that completed the stop string, which is none of
    the first ``min_tokens``.
    """

    def __init__(
        self,
        detokenizer: IncrementalDetokenizer,
        stop_token_ids: Collection[int],
        stop_strings: Sequence[str] = (),
        min_tokens: int = 0,
        *,
        include_stop: bool = False,
    ) -> None:
        self._detokenizer = detokenizer
        self._stop_token_ids = stop_token_ids
        self._scanner = StopStringScanner(stop_strings) if stop_strings else None
        self._min_tokens = min_tokens
        self._include_stop = include_stop
        # text before any of it was held back or cut
        self._num_chars = 0
        self.num_tokens = 0
        self.stop_string: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the text ends here, whatever tokens follow."""
        return self.stop_string is not None

    @property
    def has_calls(self) -> bool:
        return False

    @property
    def reasoning_tokens(self) -> int | None:
        return None

    def push(self, tokens: TokenChunk) -> TextChunk:
        if self._scanner is None and not tokens.logprobs:
            self.num_tokens += len(tokens.token_ids)
            text = self._decode(tokens.token_ids)
            return TextChunk(
                text,
                tokens.token_ids,
                tokens.num_accepted,
                prompt_logprobs=tokens.prompt_logprobs,
            )
        pieces: list[str] = []
        offsets: list[int] = []
        for token_id in tokens.token_ids:
            self.num_tokens += 1
            offsets.append(self._num_chars)
            text = self._decode((token_id,))
            self._num_chars += len(text)
            pieces.append(text if self._scanner is None else self._scan(text))
            if self.stop_string is not None:
                break
        count = len(offsets)
        return TextChunk(
            "".join(pieces),
            tokens.token_ids[:count],
            min(tokens.num_accepted, count),
            tokens.logprobs[:count],
            tuple(offsets) if tokens.logprobs else (),
            tokens.prompt_logprobs,
        )

    def finish(self) -> str:
        """The text still held back when the tokens end; it may yet bring a stop string."""
        rest = self._detokenizer.flush()
        if self._scanner is None:
            return rest
        released = self._scan(rest)
        return released if self.is_over else released + self._scanner.flush()

    def last_chunk(self) -> TextChunk:
        """As ``finish``."""
        return TextChunk(self.finish())

    def _decode(self, token_ids: tuple[int, ...]) -> str:
        # The token that ends a request is always its last one; by default it is no text.
        if token_ids and token_ids[-1] in self._stop_token_ids and not self._include_stop:
            token_ids = token_ids[:-1]
        return self._detokenizer.push(token_ids)

    def _scan(self, text: str) -> str:
        assert self._scanner is not None
        scan = self._scanner.push(text, may_stop=self.num_tokens > self._min_tokens)
        self.stop_string = scan.stop
        return scan.text + scan.stop if scan.stop and self._include_stop else scan.text
