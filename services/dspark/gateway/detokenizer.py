"""Token ids to text, a few at a time, never ending inside a character.

The decoder of a tokenizer is not a map over tokens: a character may span tokens, and the first
token of a sequence may lose its leading space. So new tokens are decoded behind a short context of
tokens whose text is already out, and only text that later tokens cannot change is released.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

REPLACEMENT = "\ufffd"
CONTEXT_TOKENS = 6
# An incomplete character is at most three bytes, hence three tokens: many more never resolve.
MAX_PENDING_TOKENS = 16
_MAX_BEGUN = 3

Decode = Callable[[list[int]], str]


class IncrementalDetokenizer:
    """Releases the text of a token sequence in pieces that join to the text of the whole.

    ``decode`` is never given ``skipped_ids`` (special tokens), which have no text. Of
    ``prompt_token_ids`` the last few give context: none of their text is released, but for a
    character that the prompt begins and the sequence completes.
    """

    def __init__(
        self,
        decode: Decode,
        skipped_ids: Collection[int] = (),
        prompt_token_ids: Sequence[int] = (),
    ) -> None:
        self._decode = decode
        self._skipped = skipped_ids
        tail = [i for i in prompt_token_ids[-CONTEXT_TOKENS:] if i not in skipped_ids]
        begun = _num_begun(decode, tail)
        self._set_context(tail[: len(tail) - begun])
        self._pending = tail[len(tail) - begun :]
        self._num_released = 0
        # What stands for the prompt's incomplete character, should it stay incomplete.
        self._prompts = self._pending_text() if begun else ""

    def push(self, token_ids: Sequence[int]) -> str:
        """Take new tokens; return the text that is certain now."""
        news = [i for i in token_ids if i not in self._skipped]
        if len(news) > 1 and self._pending_text(news).endswith(REPLACEMENT):
            # Some decoders tell nothing of what comes before an incomplete character.
            return "".join(self._take([token_id]) for token_id in news)
        return self._take(news)

    def _take(self, token_ids: list[int]) -> str:
        self._pending += token_ids
        if not self._pending:
            return ""
        text = self._pending_text()
        certain = text.rstrip(REPLACEMENT)
        if certain or len(self._pending) > MAX_PENDING_TOKENS:
            self._leave_prompts(text)
        released = certain[self._num_released :]
        if len(certain) == len(text):
            self._settle(self._pending)
        else:
            self._num_released = max(self._num_released, len(certain))
            if len(self._pending) > MAX_PENDING_TOKENS:
                released += self._give_up_on_head(text)
        return released

    def flush(self) -> str:
        """The rest at the end of the sequence; an incomplete character becomes U+FFFD."""
        if not self._pending:
            return ""
        text = self._pending_text()
        self._leave_prompts(text)
        rest = text[self._num_released :]
        self._settle(self._pending)
        return rest

    def _leave_prompts(self, text: str) -> None:
        """Leave out what stands for the prompt's character if that was not completed."""
        if self._prompts and text.startswith(self._prompts):
            self._num_released = max(self._num_released, len(self._prompts))
        self._prompts = ""

    def _set_context(self, token_ids: list[int]) -> None:
        self._context = token_ids[-MAX_PENDING_TOKENS:]
        self._context_text = self._decode(self._context) if self._context else ""

    def _settle(self, token_ids: list[int]) -> None:
        self._set_context(token_ids)
        self._pending = []
        self._num_released = 0

    def _pending_text(self, more: Sequence[int] = ()) -> str:
        """The text of what is pending, with ``more`` tokens behind it."""
        pending = [*self._pending, *more]
        text = self._decode(self._context + pending)
        if text.startswith(self._context_text):
            return text[len(self._context_text) :]
        # Byte-fallback decoders give U+FFFD for a whole run of byte tokens while its tail is open.
        return self._decode(pending)

    def _give_up_on_head(self, text: str) -> str:
        """Settle all pending tokens but the fewest that may still become a character."""
        for keep in range(1, 4):
            head, tail = self._pending[:-keep], self._pending[-keep:]
            tail_text = self._decode(tail)
            if tail_text.endswith(REPLACEMENT) and self._decode(head) + tail_text == text:
                num_head, num_released = len(text) - len(tail_text), self._num_released
                self._settle(head)
                self._pending = tail
                # What the tail has before its incomplete character may be out already.
                self._num_released = max(0, num_released - num_head)
                return text[num_released:num_head]
        released = text[self._num_released :]
        self._settle(self._pending)
        return released


def _num_begun(decode: Decode, token_ids: list[int]) -> int:
    """How many tokens at the end are the beginning of a character."""
    whole = decode(token_ids) if token_ids else ""
    if not whole.endswith(REPLACEMENT):
        return 0
    counts = range(1, min(_MAX_BEGUN, len(token_ids)) + 1)
    texts = {n: decode(token_ids[:-n]) if n < len(token_ids) else "" for n in counts}
    apart = [n for n in counts if texts[n] + decode(token_ids[-n:]) == whole]
    # U+FFFD before it may be a character of its own, but seldom is.
    clean = [n for n in apart if not texts[n].endswith(REPLACEMENT)]
    return next(iter(clean + apart), 0)
